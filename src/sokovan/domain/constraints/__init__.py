"""Constraints of sessions on agents: labels, taints, and other sessions."""

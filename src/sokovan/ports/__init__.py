"""Ports: the Protocols that adapters implement, with their contracts."""

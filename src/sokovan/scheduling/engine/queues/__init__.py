"""Queues in a scheduling cycle: usage, shares and order."""

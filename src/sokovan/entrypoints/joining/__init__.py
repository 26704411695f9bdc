"""Joining of other machines: the manager's side and the machine's."""

"""The way to agents that have dialled in: the manager's end of their links."""

"""Handlers of the session coordinator, one kind of work per module."""

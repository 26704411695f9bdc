"""Hints and events between managers, by messages that may be lost."""

"""Handlers of the coordinator of routes."""

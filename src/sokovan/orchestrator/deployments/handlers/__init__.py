"""Handlers of the coordinator of deployments."""

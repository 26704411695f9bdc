"""Explanations: why a session waits, dry runs and suggestions."""

"""Contracts of the repository ports."""

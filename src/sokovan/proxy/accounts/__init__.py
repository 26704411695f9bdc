"""Limits and usage of keys, without I/O."""

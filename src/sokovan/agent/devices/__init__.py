"""Finds the accelerators of this machine."""

"""Launching a kernel: its plan, environment, files and start."""

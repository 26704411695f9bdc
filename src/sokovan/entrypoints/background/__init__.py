"""Servers in the background: detached processes and systemd user services."""

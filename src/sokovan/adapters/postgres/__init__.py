"""Hints and events between processes by LISTEN and NOTIFY of PostgreSQL."""

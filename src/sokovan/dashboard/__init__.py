"""Serves the files of the dashboard, an application over the public API."""

"""The dashboard: a static application over the public API, and how its files are served."""

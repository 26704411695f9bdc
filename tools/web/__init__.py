"""Builds the dashboard from web/ into the package."""

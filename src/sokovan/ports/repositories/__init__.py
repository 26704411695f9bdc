"""Repositories of the store, one port each."""

"""Scheduling snapshots, cached in memory and refreshed incrementally."""

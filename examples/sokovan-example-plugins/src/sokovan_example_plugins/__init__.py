"""Example plugins for the Sokovan scheduler, one concept per file.

Together they use every extension point; the entry points in pyproject.toml give
the name of each.
"""

"""Contracts of the session repository: batches, changes, moves, names, histories."""

"""The agent's journal: an append-only file and its records."""

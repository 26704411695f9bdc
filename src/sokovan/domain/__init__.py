"""Domain types and the invariants they keep. Standard library only."""

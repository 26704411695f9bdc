"""Invariants of the store, as queries that return the rows that violate them."""

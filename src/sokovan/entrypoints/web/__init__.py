"""Connections of the API: their limits, and the protocols that enforce them."""

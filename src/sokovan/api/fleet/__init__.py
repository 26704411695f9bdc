"""The fleet: read once for all readers, as columns, and what changes in them."""

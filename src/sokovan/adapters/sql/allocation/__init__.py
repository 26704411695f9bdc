"""The SQL allocator: locks rows, verifies again, writes."""

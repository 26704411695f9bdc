"""The allocator: lock, verify again, write."""

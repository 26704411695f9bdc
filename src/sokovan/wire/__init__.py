"""What travels between processes: versioned, bounded, and free of domain types."""

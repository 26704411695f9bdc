"""Types sent between processes: versioned, bounded, without domain types."""

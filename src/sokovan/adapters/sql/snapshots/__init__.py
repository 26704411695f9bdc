"""What the core looks at, kept in memory and brought up to date."""

"""Sessions written down in files, for people who would rather not type them."""

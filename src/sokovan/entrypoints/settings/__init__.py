"""Settings of the server: their table, sources, and the values in force."""

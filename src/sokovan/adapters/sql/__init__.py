"""The store on SQLite and PostgreSQL, from one set of tables."""

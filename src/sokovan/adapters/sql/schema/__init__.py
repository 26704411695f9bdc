"""The database schema: tables, column types and migrations."""

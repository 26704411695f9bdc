"""Parts of `sokovan server`: several managers on one PostgreSQL database."""

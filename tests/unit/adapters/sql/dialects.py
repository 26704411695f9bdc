"""SQLAlchemy dialects of both databases."""

from sqlalchemy.engine import Dialect, make_url

POSTGRESQL: Dialect = make_url("postgresql+asyncpg://").get_dialect()()
SQLITE: Dialect = make_url("sqlite+aiosqlite://").get_dialect()()

"""Both databases as SQLAlchemy speaks to them, without a connection."""

from sqlalchemy.engine import Dialect, make_url

POSTGRESQL: Dialect = make_url("postgresql+asyncpg://").get_dialect()()
SQLITE: Dialect = make_url("sqlite+aiosqlite://").get_dialect()()

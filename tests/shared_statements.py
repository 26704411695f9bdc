"""SQL that a process compiled once, for every store that it opens.

An engine keeps the statements that it compiled, and every test has an engine of its
own: compiling them anew took longer than running them. In a server, which has one
engine for its whole life, a statement is compiled once as well.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

# More than there are different ones.
STATEMENTS_MAX = 5_000
STATEMENTS: LRUCache[Any, Any] = LRUCache(STATEMENTS_MAX)


class SharedSqlite(SQLiteDialect_aiosqlite):
    """SQLite, whose dialects are all alike: what one compiled serves the others."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedSqlite)

    def __hash__(self) -> int:
        return hash(SharedSqlite)

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=STATEMENTS)


class SharedPostgresql(PGDialect_asyncpg):
    """PostgreSQL, whose dialects are all alike too."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedPostgresql)

    def __hash__(self) -> int:
        return hash(SharedPostgresql)

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine.update_execution_options(compiled_cache=STATEMENTS)


registry.register("sqlite.aiosqlite", __name__, SharedSqlite.__name__)
registry.register("postgresql.asyncpg", __name__, SharedPostgresql.__name__)

"""Applies and reverts one migration on a database, and compares the tables."""

from __future__ import annotations

from enum import StrEnum, auto
from types import ModuleType

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings


class Backend(StrEnum):
    SQLITE = auto()
    POSTGRESQL = auto()

    def url(self, request: pytest.FixtureRequest) -> str:
        """An empty database of this kind."""
        return "sqlite://" if self is Backend.SQLITE else str(request.getfixturevalue("postgres_url"))


async def tables(database: Database) -> set[str]:
    """The tables of a database, without the one that stores the revision."""
    async with database.reading() as connection:
        names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
    return set(names) - {"alembic_version"}


async def apply_and_revert(url: str, step: ModuleType) -> None:
    """Upgrade to this migration, revert it and apply it again: the tables are the same."""
    database = Database(DatabaseSettings(url), clock=SystemClock())
    try:
        await migration.upgrade_by_steps(database, step.revision)
        applied = await tables(database)
        await migration.downgrade(database, step.down_revision or "base")
        reverted = await tables(database)
        assert reverted < applied
        await migration.upgrade_by_steps(database, step.revision)
        assert await tables(database) == applied
    finally:
        await database.close()

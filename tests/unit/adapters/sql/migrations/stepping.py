"""Takes one migration back and forth on a database, and looks at what is there."""

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
    """The tables that are there, without the one that tells the revision."""
    async with database.reading() as connection:
        names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
    return set(names) - {"alembic_version"}


async def steps_back_and_forth(url: str, step: ModuleType) -> None:
    """Up to this migration, one back, one forth: the same tables each time."""
    database = Database(DatabaseSettings(url), clock=SystemClock())
    try:
        await migration.upgrade_by_steps(database)
        await migration.downgrade(database, step.revision)
        with_it = await tables(database)
        await migration.downgrade(database, step.down_revision or "base")
        without_it = await tables(database)
        assert without_it < with_it
        await migration.upgrade(database)
        await migration.downgrade(database, step.revision)
        assert await tables(database) == with_it
    finally:
        await database.close()

"""The revision of the schema, read without migrations."""

from __future__ import annotations

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.schema.revision import is_newest, newest_revision


async def newest(database: Database) -> bool:
    async with database.reading() as connection:
        return await connection.run_sync(is_newest)


@pytest.mark.slow
async def test_an_upgraded_database_is_at_the_revision_that_the_migrations_know() -> None:
    database = Database(DatabaseSettings("sqlite://"), clock=SystemClock())
    try:
        assert not await newest(database)
        await migration.upgrade(database)
        assert await newest(database)
        assert (await migration.revisions(database)).newest == newest_revision()
        await migration.downgrade(database, "-1")
        assert not await newest(database)
    finally:
        await database.close()

"""An existing database gets the index of evicted sessions that have ended."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migrations import v0035_past_evictions
from tests.unit.adapters.sql.migrations.stepping import Backend


async def indexes(database: Database) -> set[str | None]:
    async with database.reading() as connection:
        return {one["name"] for one in await connection.run_sync(lambda sync: sa.inspect(sync).get_indexes("sessions"))}


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_an_existing_database_gets_the_index(backend: Backend, request: pytest.FixtureRequest) -> None:
    database = Database(DatabaseSettings(backend.url(request)), clock=SystemClock())
    try:
        await migration.upgrade(database)
        await migration.downgrade(database, v0035_past_evictions.down_revision or "base")
        assert "ix_sessions_evicted" not in await indexes(database)
        await migration.upgrade(database)
        assert "ix_sessions_evicted" in await indexes(database)
    finally:
        await database.close()

"""An existing database allows sessions and kernels to be spared."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migrations import v0034_eviction_moves
from tests.unit.adapters.sql.migrations.stepping import Backend

MOVE = "'terminating>running'"


async def allowing(database: Database) -> list[bool]:
    """Whether the history of sessions and that of kernels allow the move."""

    def look(connection: sa.Connection) -> list[bool]:
        tables = ("session_history", "kernel_history")
        checks = [sa.inspect(connection).get_check_constraints(table) for table in tables]
        return [any(MOVE in str(one["sqltext"]) for one in found) for found in checks]

    async with database.reading() as connection:
        return await connection.run_sync(look)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_an_existing_database_lets_the_evicted_run_on(backend: Backend, request: pytest.FixtureRequest) -> None:
    database = Database(DatabaseSettings(backend.url(request)), clock=SystemClock())
    try:
        await migration.upgrade(database)
        await migration.downgrade(database, v0034_eviction_moves.down_revision or "base")
        assert await allowing(database) == [False, False]
        await migration.upgrade(database)
        assert await allowing(database) == [True, True]
    finally:
        await database.close()

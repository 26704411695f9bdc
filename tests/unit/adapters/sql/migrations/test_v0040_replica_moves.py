"""An existing database allows replicas to be replaced while they drain."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migrations import v0040_replica_moves
from tests.unit.adapters.sql.migrations.stepping import Backend

MOVE = "'draining>failed'"


async def allowing(database: Database) -> bool:
    """Whether the history of replicas allows the move."""

    def look(connection: sa.Connection) -> bool:
        found = sa.inspect(connection).get_check_constraints("replica_history")
        return any(MOVE in str(one["sqltext"]) for one in found)

    async with database.reading() as connection:
        return await connection.run_sync(look)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_an_existing_database_lets_draining_replicas_fail(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    database = Database(DatabaseSettings(backend.url(request)), clock=SystemClock())
    try:
        await migration.upgrade(database)
        await migration.downgrade(database, v0040_replica_moves.down_revision or "base")
        assert await allowing(database) is False
        await migration.upgrade(database)
        assert await allowing(database) is True
    finally:
        await database.close()

"""The migration keeps the ledger, and can be reverted and applied again."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migrations import v0010_retries
from tests.unit.adapters.sql.migrations.stepping import Backend

ROW = (
    "INSERT INTO held_slots (kernel_id, slot, agent_id, incarnation, amount, held_ms)"
    " VALUES ('k', 'cpu', 'a', 1, 1000, 5)"
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_ledger_rows_of_an_older_database_belong_to_the_first_attempt(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    database = Database(DatabaseSettings(backend.url(request)), clock=SystemClock())
    try:
        await migration.upgrade_by_steps(database)
        await migration.downgrade(database, v0010_retries.down_revision or "base")
        async with database.writing() as connection:
            await connection.execute(sa.text(ROW))
            await connection.commit()
        await migration.upgrade(database)
        async with database.reading() as connection:
            rows = (await connection.execute(sa.text("SELECT kernel_id, slot, amount, attempt FROM held_slots"))).all()
        assert [tuple(row) for row in rows] == [("k", "cpu", 1000, 1)]
    finally:
        await database.close()

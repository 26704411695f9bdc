"""The migration keeps the verdicts; the next one says since when a session may start."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0009_eligible
from sokovan.domain.ids import SessionId
from sokovan.ports.repositories.verdicts import StoredVerdict
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_verdict_that_was_stored_before_is_filled_by_the_next(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.submit("s")
        verdict, database = StoredVerdict(SessionId("s"), "NO_NODES", "none", "{}"), cluster.store.database
        await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
        await migration.downgrade(database, v0009_eligible.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("verdicts"))
        assert "eligible_ms" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        before = await cluster.store.read(lambda unit: unit.verdicts.get(verdict.session_id))
        await cluster.store.run(lambda unit: unit.verdicts.put([verdict]))
        after = await cluster.store.read(lambda unit: unit.verdicts.get(verdict.session_id))
        assert before is not None
        assert after is not None
        assert (before.times, before.eligible_ms) == (1, None)
        assert (after.times, after.eligible_ms) == (2, after.last_ms)

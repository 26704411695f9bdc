"""Sessions of an existing database have no evictions after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0026_evictions
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_sessions_that_were_stored_before_were_never_evicted(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        before, database = await cluster.submit("s"), cluster.store.database
        await migration.downgrade(database, v0026_evictions.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("sessions"))
        assert {"evictions", "checkpoint_ms"}.isdisjoint(column["name"] for column in columns)
        await migration.upgrade(database)
        after = await cluster.session("s")
        assert (after, after.evictions, after.checkpoint_ms) == (before, (), None)

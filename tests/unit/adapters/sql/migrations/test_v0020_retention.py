"""Sessions of an existing database can be removed after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0020_retention
from sokovan.ports.storage import StoreRetention
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_sessions_stored_before_can_be_removed(backend: Backend, request: pytest.FixtureRequest) -> None:
    clock = VirtualClock()
    async with StoredCluster.open(backend.url(request), clock=clock) as cluster:
        database, name = cluster.store.database, cluster.new("s")
        await cluster.submit(name)
        await cluster.stop(name)
        await migration.downgrade(database, v0020_retention.down_revision or "base")
        await migration.upgrade(database)
        async with database.reading() as connection:
            indexes = await connection.run_sync(lambda sync: sa.inspect(sync).get_indexes("sessions"))
        assert "ix_sessions_ended_ms" in {one["name"] for one in indexes}
        assert not await cluster.store.expire(StoreRetention(sessions_s=0, audit_s=0))

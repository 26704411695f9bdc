"""Sessions of an existing database are sorted by their size after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0041_session_devices
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_sessions_stored_before_have_their_sizes(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database = cluster.store.database
        whole = await cluster.submit(cluster.new("s"), kernels=3, slots=ResourceSlot({"cpu": 1, "cuda.device": 2}))
        part = await cluster.submit(cluster.new("s"), kernels=2, slots=ResourceSlot({"cuda.shares": 250}))
        none = await cluster.submit(cluster.new("s"), slots=ResourceSlot({"cpu": 1}))
        chosen = sa.text("SELECT session_id, size, devices FROM sessions")

        async def sizes() -> dict[str, tuple[int, int]]:
            rows = await cluster.store.read(lambda unit: unit.transaction.fetch(chosen))
            return {row.session_id: (row.size, row.devices) for row in rows}

        stored = await sizes()
        assert stored == {whole.session_id: (3, 6000), part.session_id: (2, 500), none.session_id: (1, 0)}
        await migration.downgrade(database, v0041_session_devices.down_revision or "base")
        await migration.upgrade(database)
        assert await sizes() == stored

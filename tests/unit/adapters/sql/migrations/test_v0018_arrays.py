"""The migration can be applied, reverted and applied again, and keeps sessions."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0018_arrays
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend, apply_and_revert


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_reverted_migration_leaves_no_trace(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0018_arrays.revision == "0018"
    await apply_and_revert(backend.url(request), v0018_arrays)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_sessions_from_before_are_in_no_array(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        before = await cluster.submit("s")
        database = cluster.store.database
        await migration.downgrade(database, str(v0018_arrays.down_revision))
        await migration.upgrade(database)
        assert await cluster.session("s") == before
        await cluster.snapshots.refresh()
        [workload] = (await cluster.snapshots.snapshot(before.spec.scaling_group)).sessions
    assert (workload.array, workload.array_limit) == ("", None)

"""The migration gives placed kernels the ranks that they were started with."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0008_kernel_rank
from sokovan.testing.stored_cluster import StoredCluster, assignment
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_placed_kernels_are_ranked_by_index_and_waiting_ones_are_not(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", kernels=3, min_kernels=1)
        await cluster.submit("alone")
        await cluster.place_all([assignment("alone", "a1"), assignment("s", "a1", "a1")])
        database = cluster.store.database
        await migration.downgrade(database, v0008_kernel_rank.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("kernels"))
        assert "rank" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        assert [kernel.rank for kernel in (await cluster.session("s")).kernels] == [0, 1, None]
        assert [kernel.rank for kernel in (await cluster.session("alone")).kernels] == [0]

"""Kernels of an existing database end with their session after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0016_kernel_retries
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_kernels_that_were_stored_before_do_not_end_alone(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.agent("a1")
        before, database = await cluster.submit("s"), cluster.store.database
        await migration.downgrade(database, v0016_kernel_retries.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("kernels"))
        assert "follow_up" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        assert (await cluster.session("s")).kernels == before.kernels

"""The index of arrays has their results after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0023_array_results
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_the_index_of_an_existing_database_has_the_result(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database, name = cluster.store.database, cluster.new("s")
        await cluster.submit(name)
        await migration.downgrade(database, v0023_array_results.down_revision or "base")
        await migration.upgrade(database)
        async with database.reading() as connection:
            indexes = await connection.run_sync(lambda sync: sa.inspect(sync).get_indexes("sessions"))
        [found] = [one for one in indexes if one["name"] == "ix_sessions_array_id_status"]
        assert found["column_names"] == ["array_id", "status", "result"]
        assert (await cluster.session(name)).status == "pending"

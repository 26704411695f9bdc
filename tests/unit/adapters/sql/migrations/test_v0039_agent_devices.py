"""The devices of an agent are found without a look at those of others."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database
from sokovan.adapters.sql.migrations import v0039_agent_devices
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


async def indexed(database: Database) -> bool:
    """Whether some index begins with the agent, for all rows."""
    async with database.reading() as connection:
        found = await connection.run_sync(lambda sync: sa.inspect(sync).get_indexes("held_devices"))
    return ["agent_id"] in [one["column_names"] for one in found]


@pytest.mark.parametrize("backend", Backend)
async def test_held_devices_have_an_index_by_agent_that_can_be_removed(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database = cluster.store.database
        assert await indexed(database)
        await migration.downgrade(database, v0039_agent_devices.down_revision or "base")
        assert not await indexed(database)
        await migration.upgrade(database)
        assert await indexed(database)

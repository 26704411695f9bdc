"""The migration keeps sessions; those replaced afterwards name their successor."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0012_dependencies
from sokovan.domain.ids import SessionId
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster, session_spec
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_session_that_was_stored_before_can_be_replaced(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.submit("s")
        database = cluster.store.database
        await migration.downgrade(database, v0012_dependencies.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("sessions"))
        assert "replaced_by" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        successor = session_spec("successor")
        await cluster.store.run(
            lambda unit: unit.sessions.enqueue(successor, BY_COORDINATOR, in_place_of=SessionId("s"))
        )
        dependent = await cluster.submit("t", dependencies=("s",))
        assert dependent.spec.dependencies == ("successor",)

"""The migration keeps sessions; the next placement fills the domains of their groups."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0017_group_domains
from sokovan.testing.stored_cluster import StoredCluster, assignment
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_session_that_was_stored_before_has_no_domains(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.agent("a")
        await cluster.submit("s")
        database = cluster.store.database
        await migration.downgrade(database, v0017_group_domains.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("sessions"))
        assert "group_domains" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        assert (await cluster.session("s")).group_domains == {}
        await cluster.place_all([assignment("s", "a", group_domains={"stages/0": "r1"})])
        assert (await cluster.session("s")).group_domains == {"stages/0": "r1"}

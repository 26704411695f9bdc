"""Sessions of an existing database are listed by their specs after the migration."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0024_session_summaries
from sokovan.domain.records import SpecSummary
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_sessions_stored_before_are_listed(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database = cluster.store.database
        record = await cluster.submit(cluster.new("s"), kernels=9)
        await migration.downgrade(database, v0024_session_summaries.down_revision or "base")
        await migration.upgrade(database)

        wanted = SessionFilter(ids=[record.session_id])
        [found] = await cluster.store.read(lambda unit: unit.sessions.summaries(wanted, limit=1))
        assert found.spec == SpecSummary.of(record.spec)

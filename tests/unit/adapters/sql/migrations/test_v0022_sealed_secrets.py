"""Sessions of an existing database have no secrets after the migration."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0022_sealed_secrets
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_sessions_stored_before_have_no_secrets(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database, name = cluster.store.database, cluster.new("s")
        await cluster.submit(name)
        await migration.downgrade(database, v0022_sealed_secrets.down_revision or "base")
        await migration.upgrade(database)

        assert (await cluster.session(name)).sealed == ""

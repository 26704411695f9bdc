"""An existing database gets the tables of machines that join."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0030_joining
from sokovan.domain.cluster.agent_grant import AgentGrant, JoinToken
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_an_existing_database_stores_join_tokens(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await migration.downgrade(cluster.store.database, v0030_joining.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        items: list[CatalogItem] = [JoinToken(name="t", digest="d", expires_ms=1), AgentGrant(name="a", key="k")]
        await cluster.put(*items)
        found = await cluster.store.read(lambda unit: unit.catalog.find((JoinToken, "t"), (AgentGrant, "a")))
        assert list(found) == items

"""An existing database gets the tables of logins."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0033_logins
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.login import Login, LoginCode
from sokovan.ports.repositories.catalog import CatalogItem
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend

KEY = AccessKey("AK-1")


@pytest.mark.parametrize("backend", Backend)
async def test_an_existing_database_stores_logins_and_their_codes(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await migration.downgrade(cluster.store.database, v0033_logins.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        items: list[CatalogItem] = [
            Login(name="l", access_key=KEY, user="ada", digest="d", created_ms=1, used_ms=2),
            LoginCode(name="c", access_key=KEY, user="ada", digest="d", expires_ms=1),
        ]
        await cluster.put(*items)
        found = await cluster.store.read(lambda unit: unit.catalog.find((Login, "l"), (LoginCode, "c")))
        assert list(found) == items

"""The migration can be applied, reverted and applied again."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0021_deployments
from sokovan.testing.contracts.repositories.routes import routed
from sokovan.testing.contracts.repositories.serving import created, replicated, rolled
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend, tables


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_it_can_be_reverted_with_deployments_in_it(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        before = await cluster.submit("s")
        deployment = (await created(cluster)).deployment_id
        await replicated(cluster, deployment)
        await rolled(cluster, deployment)
        await routed(cluster, deployment)
        database = cluster.store.database
        applied = await tables(database)
        await migration.downgrade(database, str(v0021_deployments.down_revision))
        assert {"endpoints", "replicas"} - await tables(database) == {"replicas"}
        await migration.upgrade(database)
        assert await tables(database) == applied
        assert await cluster.session("s") == before
        assert await cluster.store.read(lambda unit: unit.deployments.live()) == []

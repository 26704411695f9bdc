"""The migration can be applied and reverted, and keeps the HyperNodes."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0015_topology
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend, tables

RACKS = (HyperNode("r1", 1, ("a",), "rack"), HyperNode("row1", 2, ("r1",)))


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_hypernodes_become_one_document_and_back(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0015_topology.revision == "0015"
    async with StoredCluster.open(backend.url(request)) as cluster:
        database, given = cluster.store.database, Topology((TierRule(1, "rack"),), RACKS)
        await cluster.agent("a", labels={"zone": "z"})
        await cluster.put(given)
        applied = await tables(database)
        for _ in range(2):
            await migration.downgrade(database, str(v0015_topology.down_revision))
            assert "topology" in applied - await tables(database)
            await migration.upgrade(database)
        assert await tables(database) == applied
        assert await cluster.store.read(lambda unit: unit.catalog.all(Topology)) == [given]
        [agent] = await cluster.store.read(lambda unit: unit.fleet.all())
        assert (agent.operator_labels, agent.info.labels) == ({}, {"zone": "z"})


@pytest.mark.slow
async def test_a_database_without_hypernodes_has_no_topology_after_the_migration() -> None:
    async with StoredCluster.open() as cluster:
        await migration.downgrade(cluster.store.database, str(v0015_topology.down_revision))
        await migration.upgrade(cluster.store.database)
        assert await cluster.store.read(lambda unit: unit.catalog.all(Topology)) == []

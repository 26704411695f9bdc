"""Changes of the topology, checked against sessions."""

from __future__ import annotations

from functools import partial

import pytest

from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import InvalidTopology
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.orchestrator.topology_changes import apply_topology, broken_constraints, topology_state
from sokovan.testing.stored_cluster import StoredCluster

RACKS = Topology((TierRule(1, "rack", "rack"),))
IN_A_RACK = TopologyConstraint(TopologyMode.HARD, "rack")


async def running(cluster: StoredCluster) -> None:
    await cluster.agent("a1", labels={"rack": "r1"})
    await cluster.put(RACKS)
    for name, topology in (("s1", IN_A_RACK), ("s2", None), ("s3", IN_A_RACK)):
        await cluster.submit(name, topology=topology)
    await cluster.place("s1", "a1")


async def test_a_dry_run_stores_nothing_and_reports_the_same() -> None:
    async with StoredCluster.open() as cluster:
        await running(cluster)
        other = Topology((TierRule(1, "row", "row"),))
        found = [await cluster.store.run(partial(apply_topology, topology=other, dry_run=dry)) for dry in (True, False)]
        assert [[one.session.session_id for one in each] for each in found] == [["s1", "s3"]] * 2
        assert (await cluster.store.read(topology_state)).topology == other


async def test_a_label_that_moves_an_agent_breaks_no_constraint_of_one_kernel() -> None:
    async with StoredCluster.open() as cluster:
        await running(cluster)
        [agent] = await cluster.store.read(lambda unit: unit.fleet.all())
        await cluster.store.run(lambda unit: unit.catalog.set_labels("a1", {"rack": "r2"}, version=agent.version))
        state = await cluster.store.read(topology_state)
        assert [node.name for node in state.hypernodes] == ["r2"]
        assert await cluster.store.read(lambda unit: broken_constraints(unit, state)) == []


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_topology_that_is_no_tree_is_refused(*, dry_run: bool) -> None:
    async with StoredCluster.open() as cluster:
        await running(cluster)
        bad = Topology(hypernodes=(HyperNode("x", 1, ("nobody",)),))
        with pytest.raises(InvalidTopology):
            await cluster.store.run(lambda unit: apply_topology(unit, bad, dry_run=dry_run))
        assert (await cluster.store.read(topology_state)).topology == RACKS

"""Fake agents enrol like real ones, and get racks when all are enrolled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.agent.fake.shape import FleetShape
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentStatus, AgentTrigger
from sokovan.entrypoints.embedded.fake_agents import FakeEnrolment, declare_previous_fakes_lost
from sokovan.orchestrator.agent_recovery import is_left_behind
from sokovan.orchestrator.agent_registry import AgentRegistry, EnrolmentRequest
from sokovan.testing.stored_cluster import BY_USER, StoredCluster


async def enrol(cluster: StoredCluster, shape: FleetShape) -> None:
    clock = cluster.store.database.clock
    registry = AgentRegistry(cluster.store, InProcessAgentStates(clock), hints=InProcessHints(clock), clock=clock)
    enrolment = FakeEnrolment(registry, cluster.store, shape)
    for info in shape.agents():
        await enrolment.admit(info, shape.devices(), ())


async def racks(cluster: StoredCluster) -> dict[str, int]:
    found = await cluster.store.read(lambda unit: unit.catalog.all(Topology))
    return {node.name: len(node.members) for one in found for node in one.hypernodes}


@pytest.mark.slow
async def test_agents_stand_in_racks_once_all_have_enrolled() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=20, gpus=8))
        agents = await cluster.store.read(lambda unit: unit.fleet.all())
        assert len(agents) == 20
        assert agents[0].info.available_slots["cuda.device"] == 8
        assert await racks(cluster) == {"r00": 8, "r01": 8, "r02": 4, "fake": 3}


@pytest.mark.slow
async def test_a_later_start_with_another_fleet_replaces_the_racks() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=20, gpus=8))
        await enrol(cluster, FleetShape(count=8, gpus=4))
        assert await racks(cluster) == {"r00": 8, "fake": 1}
        agents = {agent.info.agent_id: agent.info for agent in await cluster.store.read(lambda unit: unit.fleet.all())}
        assert agents[AgentId("r00n0")].incarnation == 2
        assert agents[AgentId("r00n0")].available_slots["cuda.device"] == 4


@pytest.mark.slow
async def test_racks_below_the_root_of_an_earlier_version_are_replaced() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=8, gpus=8))
        [known] = await cluster.store.read(lambda unit: unit.catalog.all(Topology))
        earlier = HyperNode("pretended", 2, ("r00",), tier_name="root")
        await cluster.put(replace(known, hypernodes=(known.hypernodes[0], earlier)))
        await enrol(cluster, FleetShape(count=20, gpus=8))
        assert await racks(cluster) == {"r00": 8, "r01": 8, "r02": 4, "fake": 3}


@pytest.mark.slow
async def test_a_topology_that_an_administrator_applied_is_kept() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=8, gpus=8))
        await cluster.put(Topology((TierRule(1, "rack", "rack"),)))
        await enrol(cluster, FleetShape(count=20, gpus=8))
        assert await racks(cluster) == {}
        await cluster.put(Topology(hypernodes=(HyperNode("own", 1, ("r00n0",)),)))
        await enrol(cluster, FleetShape(count=20, gpus=8))
        assert await racks(cluster) == {"own": 1}


async def test_a_fake_agent_takes_no_name_of_a_real_one() -> None:
    async with StoredCluster.open() as cluster:
        shape = FleetShape(count=1, gpus=0)
        [info] = shape.agents()
        clock = cluster.store.database.clock
        registry = AgentRegistry(cluster.store, InProcessAgentStates(clock), hints=InProcessHints(clock), clock=clock)
        await registry.admit(
            EnrolmentRequest(agent_id=info.agent_id, identity="a machine's", slots=info.available_slots)
        )
        with pytest.raises(Conflict, match="another machine"):
            await enrol(cluster, shape)


async def statuses(cluster: StoredCluster) -> dict[str, AgentStatus]:
    found = await cluster.store.read(lambda unit: unit.fleet.all())
    return {one.info.agent_id: one.info.status for one in found}


async def test_fake_agents_of_an_earlier_process_are_lost_at_once() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=3, gpus=0))
        await cluster.agent("real", labels={"sokovan.fake": "yes"})

        assert await declare_previous_fakes_lost(cluster.store, None) == 3

        lost = {"r00n0", "r00n1", "r00n2"}
        assert await statuses(cluster) == {"real": AgentStatus.ALIVE, **dict.fromkeys(lost, AgentStatus.LOST)}
        history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("r00n0")))
        assert [(entry.after, entry.change.code) for entry in history[1:]] == [
            ("suspect", "fake-agent-ended"),
            ("lost", "fake-agent-ended"),
        ]
        trail = await cluster.store.read(lambda unit: unit.audit.page(limit=9))
        assert {(entry.who, entry.action, entry.target) for _, _, entry in trail} == {
            ("sokovan up", "agent.lose", name) for name in lost
        }


async def test_a_fake_agent_of_this_process_is_left_alone() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=3, gpus=0))
        assert await declare_previous_fakes_lost(cluster.store, FleetShape(count=2, gpus=4)) == 1
        assert await statuses(cluster) == {
            "r00n0": AgentStatus.ALIVE,
            "r00n1": AgentStatus.ALIVE,
            "r00n2": AgentStatus.LOST,
        }


async def test_who_is_lost_already_and_holds_nothing_is_lost_once() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=2, gpus=0))
        assert await declare_previous_fakes_lost(cluster.store, None) == 2
        assert await declare_previous_fakes_lost(cluster.store, None) == 0


@pytest.mark.slow
async def test_a_later_fleet_uses_the_same_names_again_and_what_was_drained_stays_so() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=2, gpus=0))
        record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("r00n0")))
        await cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.DRAIN_REQUESTED, BY_USER))
        assert await declare_previous_fakes_lost(cluster.store, None) == 2

        await enrol(cluster, FleetShape(count=2, gpus=0))

        assert await statuses(cluster) == {"r00n0": AgentStatus.DRAINING, "r00n1": AgentStatus.ALIVE}


async def test_what_ran_on_them_is_over_by_proof() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=1, gpus=0))
        await cluster.submit("s")
        await cluster.place("s", "r00n0")
        await cluster.start("s")

        assert await declare_previous_fakes_lost(cluster.store, None) == 1

        agent = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("r00n0")))
        [kernel] = await cluster.store.read(lambda unit: unit.ledger.kernels_on(AgentId("r00n0")))
        assert is_left_behind(kernel, agent.info)

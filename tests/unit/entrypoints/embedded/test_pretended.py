"""Pretended agents are enrolled like real ones, and stand in racks when all are there."""

from __future__ import annotations

import pytest

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.pretend.shape import FleetShape
from sokovan.domain.errors import Conflict
from sokovan.domain.ids import AgentId
from sokovan.domain.topology import HyperNode
from sokovan.entrypoints.embedded.pretended import PretendedEnrolment
from sokovan.orchestrator.fleet import AgentRegistry, Arrival
from sokovan.testing.stored_cluster import StoredCluster


async def enrol(cluster: StoredCluster, shape: FleetShape) -> None:
    clock = cluster.store.database.clock
    registry = AgentRegistry(cluster.store, InProcessAgentStates(clock), hints=InProcessHints(clock), clock=clock)
    enrolment = PretendedEnrolment(registry, cluster.store, shape)
    for info in shape.agents():
        await enrolment.admit(info, shape.devices(), ())


async def racks(cluster: StoredCluster) -> dict[str, int]:
    found = await cluster.store.read(lambda unit: unit.catalog.all(HyperNode))
    return {one.name: len(one.members) for one in found}


async def test_agents_stand_in_racks_once_all_have_enrolled() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=20, gpus=8))
        agents = await cluster.store.read(lambda unit: unit.fleet.all())
        assert len(agents) == 20
        assert agents[0].info.available_slots["cuda.device"] == 8
        assert await racks(cluster) == {"r00": 8, "r01": 8, "r02": 4, "pretended": 3}


async def test_a_later_start_with_another_fleet_replaces_the_racks() -> None:
    async with StoredCluster.open() as cluster:
        await enrol(cluster, FleetShape(count=20, gpus=8))
        await enrol(cluster, FleetShape(count=8, gpus=4))
        assert await racks(cluster) == {"r00": 8, "pretended": 1}
        agents = {agent.info.agent_id: agent.info for agent in await cluster.store.read(lambda unit: unit.fleet.all())}
        assert agents[AgentId("r00n0")].incarnation == 2
        assert agents[AgentId("r00n0")].available_slots["cuda.device"] == 4


async def test_a_pretended_agent_takes_no_name_of_a_real_one() -> None:
    async with StoredCluster.open() as cluster:
        shape = FleetShape(count=1, gpus=0)
        [info] = shape.agents()
        clock = cluster.store.database.clock
        registry = AgentRegistry(cluster.store, InProcessAgentStates(clock), hints=InProcessHints(clock), clock=clock)
        await registry.admit(Arrival(agent_id=info.agent_id, identity="a machine's", slots=info.available_slots))
        with pytest.raises(Conflict, match="another machine"):
            await enrol(cluster, shape)

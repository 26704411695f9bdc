"""Agents that enrol for the first time, beyond the contract of the port."""

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.events import AgentEnrolled
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.agents import NewAgent
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import BY_AGENT, StoredCluster


def new(name: str, *, group: str = "default") -> NewAgent:
    info = AgentInfo(AgentId(name), ResourceSlot({"cpu": 1000}), scaling_group=ScalingGroupName(group))
    return NewAgent(info, BY_AGENT)


async def test_each_of_them_is_published_as_an_enrolment() -> None:
    async with StoredCluster.open() as cluster:
        assert await cluster.store.run(lambda unit: unit.fleet.enrol_new([new("a2"), new("a1")]))
        events = [event for event in await published(cluster) if isinstance(event, AgentEnrolled)]
        assert sorted((event.agent_id, event.incarnation) for event in events) == [("a1", 1), ("a2", 1)]


async def test_no_agents_need_nothing_and_an_unknown_scaling_group_is_named() -> None:
    async with StoredCluster.open() as cluster:
        assert await cluster.store.run(lambda unit: unit.fleet.enrol_new([]))
        with pytest.raises(ObjectNotFound, match="nowhere"):
            await cluster.store.run(lambda unit: unit.fleet.enrol_new([new("a1"), new("a2", group="nowhere")]))
        assert await cluster.store.read(lambda unit: unit.fleet.all()) == []


async def test_refused_ones_are_not_published() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await published(cluster)
        assert not await cluster.store.run(lambda unit: unit.fleet.enrol_new([new("a0"), new("a1")]))
        assert await published(cluster) == []

"""The agent repository, beyond the contract of its port."""

import pytest

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import ForbiddenCause, ObjectNotFound
from sokovan.domain.events import AgentEnrolled, AgentMoved
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.records import AgentRecord, Device
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.contracts.repositories.agents import agent_now, moved, walked
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements

SHARES = "cuda.shares"


async def enrolled(cluster: StoredCluster, *devices: Device, amount: int) -> AgentRecord:
    info = AgentInfo(AgentId("a1"), ResourceSlot({SHARES: amount}))
    return await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=devices))


async def test_a_return_is_published_as_a_move_and_as_an_enrolment() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await walked(cluster, "a1", AgentTrigger.HEARTBEAT_MISSED, AgentTrigger.DECLARED_LOST)
        await published(cluster)
        await cluster.agent("a1")
        events = await published(cluster)
        assert [type(event) for event in events] == [AgentMoved, AgentEnrolled]
        assert [getattr(event, "incarnation", 0) for event in events] == [1, 2]


async def test_only_the_agent_itself_can_bring_it_back() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        before = await walked(cluster, "a1", AgentTrigger.HEARTBEAT_MISSED)
        info = AgentInfo(AgentId("a1"), ResourceSlot())
        with pytest.raises(ForbiddenCause):
            await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_USER))
        assert await agent_now(cluster, "a1") == before


@pytest.mark.slow
async def test_known_agents_are_read_again_only_if_something_was_written_of_them() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("a1", "a2", "a3"):
            await cluster.agent(name)
        known = {one.info.agent_id: one for one in await cluster.store.read(lambda unit: unit.fleet.all())}
        with recorded_statements(cluster) as statements:
            same = await cluster.store.read(lambda unit: unit.fleet.all(known=known))
        assert [one is known[one.info.agent_id] for one in same] == [True] * 3
        assert len([one for one in statements if one.startswith("SELECT")]) == 1
        await cluster.submit("held")
        await cluster.place("held", "a2")
        await walked(cluster, "a3", AgentTrigger.DRAIN_REQUESTED)
        await cluster.agent("a4")
        found = await cluster.store.read(lambda unit: unit.fleet.all(known=known))
        assert [one is known.get(one.info.agent_id) for one in found] == [True, False, False, False]
        assert found == await cluster.store.read(lambda unit: unit.fleet.all())
        assert found[1].info.kernel_count == 1


async def test_an_agent_that_never_joined_cannot_be_moved() -> None:
    async with StoredCluster.open() as cluster:
        record = AgentRecord(AgentInfo(AgentId("nobody"), ResourceSlot()), version=1)
        with pytest.raises(ObjectNotFound):
            await moved(cluster, record, AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR)


async def test_an_unused_device_takes_its_new_size() -> None:
    async with StoredCluster.open() as cluster:
        await enrolled(cluster, Device("gpu0", SHARES, units=10), amount=10)
        record = await enrolled(cluster, Device("gpu0", SHARES, units=4), Device("gpu1", SHARES, units=6), amount=10)
        assert record.devices == (Device("gpu0", SHARES, units=4), Device("gpu1", SHARES, units=6))


async def test_enrolling_many_slots_again_touches_only_this_agent() -> None:
    async with StoredCluster.open() as cluster:
        other = await cluster.agent("a2")
        await cluster.agent("a1", slots={"cpu": 1, "mem": 2, "x": 3})
        record = await cluster.agent("a1", slots={"cpu": 9, "y": 4})
        assert record.info.available_slots == ResourceSlot({"cpu": 9, "y": 4})
        assert await agent_now(cluster, "a2") == other

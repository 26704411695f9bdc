"""Locking and reading the rows that an allocation depends on."""

from typing import Any

from sokovan.adapters.sql.allocation.locked_state import lock_state
from sokovan.adapters.sql.allocation.verification import LockedState
from sokovan.adapters.sql.repositories.owner_limits import OwnerLimitCache
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Owner, User
from sokovan.domain.slots import SlotLimits
from sokovan.ports.allocation import AllocationContext, Assignment
from sokovan.testing.contracts.repositories.agents import walked
from sokovan.testing.stored_cluster import StoredCluster, assignment

GPU = "cuda.device"


async def locked(cluster: StoredCluster, *assignments: Assignment, **context: Any) -> LockedState:
    async def work(unit: SqlUnitOfWork) -> LockedState:
        return await lock_state(unit.transaction, assignments, AllocationContext(**context), OwnerLimitCache())

    return await cluster.store.run_sql(work)


async def test_agents_are_seen_as_they_are_now() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 4000, GPU: 2}, kernels_max=5, labels={"zone": "a"})
        await cluster.agent("a2", slots={"cpu": 1000})
        await walked(cluster, "a2", AgentTrigger.DRAIN_REQUESTED)
        await cluster.submit("s1", slots={"cpu": 1000, GPU: 1})
        await cluster.place("s1", "a1")
        await cluster.submit("s2", slots={GPU: 1})
        state = await locked(cluster, assignment("s2", "a1", "a2", "nobody"))
        assert set(state.agents) == {"a1", "a2"}
        first = state.agents["a1"]
        assert (first.alive, first.incarnation, first.kernels_left, first.labels) == (True, 1, 4, {"zone": "a"})
        assert first.free == {"cpu": 3000, GPU: 1}
        assert first.devices.free == {GPU: {"gpu0": 0, "gpu1": 1}}
        assert not state.agents["a2"].alive


async def test_devices_are_read_for_the_slots_that_are_asked_for_only() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 4000, GPU: 2})
        await cluster.submit("s1", slots={"cpu": 1000})
        state = await locked(cluster, assignment("s1", "a1"))
        assert state.agents["a1"].devices.free == {}


async def test_removed_devices_are_registered_with_nothing_free() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={GPU: 1})
        await cluster.agent("a1", slots={GPU: 1}, devices=False)
        await cluster.submit("s1", slots={GPU: 1})
        state = await locked(cluster, assignment("s1", "a1"))
        assert state.agents["a1"].devices.free == {GPU: {"gpu0": 0}}


async def test_sessions_that_are_not_there_are_left_out() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1", kernels=2)
        state = await locked(cluster, assignment("s1"), assignment("nobody"))
        assert set(state.sessions) == {"s1"}
        assert list(state.sessions["s1"].kernels) == ["s1.0", "s1.1"]


async def test_what_limited_owners_use_is_read() -> None:
    async with StoredCluster.open() as cluster:
        policy = ResourcePolicy("p", slots_max=SlotLimits({"cpu": 5000}))
        await cluster.put(policy, Domain("d"), User("u", "d", policy="p"))
        await cluster.agent("a1")
        for name in ("s1", "s2"):
            await cluster.submit(name, owner=Owner(user="u"))
        await cluster.place("s1", "a1")
        state = await locked(cluster, assignment("s2", "a1"))
        assert state.used["user", "u", "cpu"] == 1000


async def test_who_waits_for_another_is_named() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1")
        await cluster.submit("s2", dependencies=(SessionId("s1"),))
        state = await locked(cluster, assignment("s1"), assignment("s2"))
        assert set(state.unmet) == {"s2"}


async def test_a_topology_moves_only_for_those_who_rest_on_it() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.put(Topology(hypernodes=(HyperNode("rack1", 1, ("a1",)),)))
        await cluster.snapshots.refresh()
        mark = cluster.snapshots.marks.topology
        near = assignment("s1", "a1", hypernode="rack1")
        cases = [(near, mark), (near, mark + 1), (near, None), (assignment("s1", "a1"), mark + 1)]
        moved = [(await locked(cluster, one, topology=seen)).topology_changed for one, seen in cases]
        assert moved == [False, True, False, False]


async def test_bookings_that_changed_since_the_decision_are_noticed() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.put(Booking("demo", 0, 10, agents=("a1",), users=("u",)))
        await cluster.snapshots.refresh()
        mark = cluster.snapshots.marks.bookings
        one = assignment("s1", "a1")
        changed = [(await locked(cluster, one, bookings=seen)).bookings_changed for seen in (mark, mark + 1, None)]
        assert changed == [False, True, False]

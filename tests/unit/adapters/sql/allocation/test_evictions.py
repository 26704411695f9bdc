"""Evictions are verified again at their commit: all for a taker, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.eviction import EvictionCost
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.records import Change, HistoryEntry, KernelMove
from sokovan.domain.session import KernelSpec, Partition, SessionSpec, SessionType
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.allocation import Assignment
from sokovan.ports.snapshots import RecordedPlan
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.scheduling.snapshot import Reservation
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, DEFAULT_GROUP, StoredCluster

TAKER = Reservation(SessionId("taker"), ((KernelId("taker.0"), AgentId("a")),))


@pytest.fixture
async def cluster() -> AsyncIterator[StoredCluster]:
    """An agent with two running sessions, and a session that waits for their room."""
    async with StoredCluster.open() as cluster:
        await cluster.agent("a")
        for name in ("one", "two"):
            await cluster.submit(name, kernels=2, session_type=SessionType.BATCH)
            await cluster.place(name, "a", "a")
            await cluster.start(name)
        await cluster.submit("taker")
        await cluster.snapshots.refresh()
        yield cluster


def evicting(*kernels: str, taker: str = "taker", reservations: tuple[Reservation, ...] = (TAKER,)) -> SchedulingPlan:
    """A plan that evicts kernels of agent a."""
    evictions = tuple(
        Eviction(KernelId(one), SessionId(one.split(".")[0]), AgentId("a"), SessionId(taker), "preempt")
        for one in kernels
    )
    return SchedulingPlan(evictions=evictions, reservations=reservations)


async def record(cluster: StoredCluster, plan: SchedulingPlan) -> RecordedPlan:
    """Record a plan of the default group."""
    return await cluster.snapshots.record_plan(DEFAULT_GROUP, plan)


async def reserved(cluster: StoredCluster) -> list[str]:
    """The sessions with a reservation, as another manager reads them."""
    await cluster.snapshots.refresh()
    return [one.session_id for one in (await cluster.snapshots.snapshot(DEFAULT_GROUP)).reservations]


async def test_an_eviction_is_committed_with_the_reservation_and_a_receipt(cluster: StoredCluster) -> None:
    recorded = await record(cluster, evicting("one.0", "one.1"))
    [evicted] = recorded.evicted
    assert (evicted, recorded.refused) == (await cluster.session("one"), {})
    assert (evicted.status, evicted.is_retried, [one.status for one in evicted.kernels]) == (
        "terminating", True, ["terminating", "terminating"],
    )  # fmt: skip
    [receipt] = evicted.evictions
    assert (receipt.number, receipt.for_session, receipt.action) == (1, "taker", "preempt")
    assert receipt.for_name == (await cluster.session("taker")).spec.name
    assert (receipt.kernels, receipt.whole, receipt.slots) == (2, True, 2000)
    assert receipt.evict_at_ms - receipt.at_ms == 10_000
    assert await reserved(cluster) == ["taker"]
    taker = await cluster.store.read(lambda unit: unit.sessions.history(SessionId("taker")))
    assert "2 kernels are evicted for it (2 of session one)" in taker[-1][1].change.detail


async def history_of(cluster: StoredCluster, name: str) -> Sequence[tuple[str, HistoryEntry]]:
    """The history of a session."""
    return await cluster.store.read(lambda unit: unit.sessions.history(SessionId(name)))


async def test_both_receipts_say_why_and_at_what_cost(cluster: StoredCluster) -> None:
    plan = evicting("one.0", "one.1")
    cost = EvictionCost(
        only_loans=False, whole_gangs=1, queue_distance=0, queue_priority=0, priority=0, kernel_priority=0,
        lost_slot_minutes=3, kernels=2,
    )  # fmt: skip
    second = dataclasses.replace(cost, lost_slot_minutes=4)
    some = tuple(one._replace(rule="priority", cost=cost, runner_up=second, notice_ms=4000) for one in plan.evictions)
    [evicted] = (await record(cluster, dataclasses.replace(plan, evictions=some))).evicted
    [receipt] = (await cluster.session("one")).evictions
    assert evicted.evictions == (receipt,)
    assert (receipt.rule, receipt.cost, receipt.runner_up) == ("priority", cost, second)
    assert receipt.evict_at_ms - receipt.at_ms == 4000
    for name in ("one", "taker"):
        history = await history_of(cluster, name)
        assert f"chosen (of lower priority) by cost: {cost.sentence()}" in history[-1][1].change.detail


async def refused(cluster: StoredCluster, plan: SchedulingPlan) -> str:
    """The reason for which a plan is refused; nothing may have changed."""
    before = [await cluster.session(name) for name in ("one", "two", "taker")]
    recorded = await record(cluster, plan)
    assert recorded.evicted == ()
    assert [await cluster.session(name) for name in ("one", "two", "taker")] == before
    assert await reserved(cluster) == []
    return recorded.refused[SessionId("taker")]


async def test_nothing_is_evicted_for_a_session_that_was_stopped(cluster: StoredCluster) -> None:
    await cluster.stop("taker")
    assert await refused(cluster, evicting("one.0", "one.1")) == "it does not wait any more"


async def test_nothing_is_evicted_for_a_session_that_was_placed(cluster: StoredCluster) -> None:
    await cluster.place("taker", "a")
    assert await refused(cluster, evicting("one.0", "one.1")) == "kernel taker.0 does not wait any more"


async def test_nothing_is_evicted_without_a_reservation(cluster: StoredCluster) -> None:
    assert await refused(cluster, evicting("one.0", "one.1", reservations=())) == "it has no reservation"


async def test_one_victim_that_has_ended_spares_the_others(cluster: StoredCluster) -> None:
    await cluster.stop("two")
    problem = await refused(cluster, evicting("one.0", "one.1", "two.0", "two.1"))
    assert problem == "kernel two.0, which was to be evicted, has ended or moved"


async def test_a_gang_is_not_left_below_its_minimum(cluster: StoredCluster) -> None:
    problem = await refused(cluster, evicting("one.1"))
    assert problem == "session one would keep 1 kernels, fewer than its minimum"


async def elastic(cluster: StoredCluster, **options: Any) -> None:
    """A running session of kernels a a b b whose minimum is one kernel."""
    specs = [
        KernelSpec(KernelId(f"elastic.{index}"), ResourceSlot({"cpu": 1000}), group, labels={"stage": group})
        for index, group in enumerate("aabb")
    ]
    spec = SessionSpec(SessionId("elastic"), tuple(specs), session_type=SessionType.BATCH, min_kernels=1, **options)
    await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
    await cluster.agent("b")
    await cluster.place("elastic", *"bbbb")
    await cluster.start("elastic")
    await cluster.snapshots.refresh()


def from_b(*kernels: str) -> SchedulingPlan:
    plan = evicting(*kernels)
    return dataclasses.replace(plan, evictions=tuple(one._replace(agent_id=AgentId("b")) for one in plan.evictions))


@pytest.mark.parametrize(
    "options",
    [{"group_minimums": {"b": 2}}, {"partitions": (Partition("stages", by="stage", size=2, min_groups=2),)}],
)
async def test_a_gang_keeps_its_group_minimums_and_whole_groups(
    cluster: StoredCluster, options: dict[str, Any]
) -> None:
    await elastic(cluster, **options)
    problem = await refused(cluster, from_b("elastic.3"))
    assert problem == "session elastic would keep 3 kernels, too few of a kernel group"
    assert (await record(cluster, from_b(*(f"elastic.{index}" for index in range(4))))).refused == {}


async def test_kernels_beyond_the_minimum_of_a_group_are_evicted_alone(cluster: StoredCluster) -> None:
    await elastic(cluster, group_minimums={"b": 1})
    assert (await record(cluster, from_b("elastic.3"))).refused == {}


async def test_nothing_is_evicted_on_an_agent_that_takes_no_kernels(cluster: StoredCluster) -> None:
    async def drain(unit: Any) -> None:
        agent = await unit.fleet.get(AgentId("a"))
        await unit.fleet.move(agent, AgentTrigger.DRAIN_REQUESTED, BY_USER)

    await cluster.store.run(drain)
    assert await refused(cluster, evicting("one.0", "one.1")) == "agent a accepts no new kernels"


async def test_the_evictions_of_another_taker_are_committed(cluster: StoredCluster) -> None:
    await cluster.submit("other")
    await cluster.snapshots.refresh()
    await cluster.stop("taker")
    other = Reservation(SessionId("other"), ((KernelId("other.0"), AgentId("a")),))
    both = SchedulingPlan(
        evictions=(*evicting("one.0", "one.1").evictions, *evicting("two.0", "two.1", taker="other").evictions),
        reservations=(TAKER, other),
    )
    recorded = await record(cluster, both)
    assert [one.session_id for one in recorded.evicted] == ["two"]
    assert (list(recorded.refused), await reserved(cluster)) == (["taker"], ["other"])


async def test_the_kernel_where_others_meet_takes_the_session_along(cluster: StoredCluster) -> None:
    await cluster.submit("elastic", kernels=2, min_kernels=1, session_type=SessionType.BATCH)
    await cluster.place("elastic", "a", "a")
    await cluster.start("elastic")
    recorded = await record(cluster, evicting("elastic.0"))
    [evicted] = recorded.evicted
    assert (evicted.status, evicted.evictions[0].whole, evicted.evictions[0].kernels) == ("terminating", True, 2)


async def moved(cluster: StoredCluster, move: KernelMove, by: Change) -> None:
    """Move one kernel."""
    await cluster.store.run(lambda unit: unit.sessions.move_kernels([move], by))


_STEPS = {
    "scheduled": (),
    "preparing": (KernelTrigger.PREPARATION_STARTED,),
    "pulling": (KernelTrigger.PREPARATION_STARTED, KernelTrigger.PULL_STARTED),
    "prepared": (KernelTrigger.IMAGE_READY,),
    "creating": (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED),
}


@pytest.mark.parametrize("status", _STEPS)
async def test_a_kernel_that_joins_a_session_is_evicted_in_any_status(cluster: StoredCluster, status: str) -> None:
    await cluster.submit("elastic", kernels=2, min_kernels=1, session_type=SessionType.BATCH)
    await cluster.place("elastic", "a")
    await cluster.start("elastic")
    joining = Assignment(SessionId("elastic"), ((KernelId("elastic.1"), AgentId("a")),))
    await cluster.place_all([joining])
    for trigger in _STEPS[status]:
        move = KernelMove((await cluster.session("elastic")).kernels[1], trigger)
        by = BY_AGENT if trigger is KernelTrigger.PULL_STARTED else BY_COORDINATOR
        await moved(cluster, move, by)
    assert (await cluster.session("elastic")).kernels[1].status == status
    [evicted] = (await record(cluster, evicting("elastic.1"))).evicted
    assert (evicted.status, [one.status for one in evicted.kernels]) == ("running", ["running", "terminating"])
    proof = FreeProof.AGENT_TOMBSTONE if evicted.kernels[1].sent else FreeProof.NEVER_SENT
    await cluster.store.run(lambda unit: unit.ledger.free([evicted.kernels[1]], proof, BY_COORDINATOR))
    after = await cluster.session("elastic")
    assert (after.status, after.kernels[1].status, after.kernels[1].attempt) == ("running", "pending", 2)
    assert after.evictions[0].ended_ms is not None


GRACE_MS = 10_000


def leaving(*kernels: str) -> SchedulingPlan:
    """A plan by which kernels of agent a leave for a booking."""
    return SchedulingPlan(
        evictions=tuple(
            Eviction(
                KernelId(one), SessionId(one.split(".")[0]), AgentId("a"), SessionId(""), "booking",
                rule="booking", notice_ms=GRACE_MS, for_booking="demo",
            )
            for one in kernels
        )
    )  # fmt: skip


async def book(cluster: StoredCluster, *, ahead_ms: int = GRACE_MS, agent: str = "a") -> None:
    """Book an agent from a time on."""
    now_ms = await cluster.store.read(_now)
    await cluster.put(Booking("demo", now_ms + ahead_ms, now_ms + 3_600_000, agents=(agent,), users=("u",)))


async def _now(unit: Any) -> int:
    return int(unit.now_ms)


async def test_what_leaves_for_a_booking_is_committed_session_by_session(cluster: StoredCluster) -> None:
    await book(cluster)
    await cluster.stop("two")
    recorded = await record(cluster, leaving("one.0", "one.1", "two.0", "two.1"))
    assert [one.session_id for one in recorded.evicted] == ["one"]
    assert recorded.refused == {}
    assert list(recorded.spared) == ["two"]
    [receipt] = recorded.evicted[0].evictions
    assert (receipt.for_booking, receipt.for_session, receipt.for_user, receipt.rule) == ("demo", "", "", "booking")
    assert receipt.evict_at_ms - receipt.at_ms == GRACE_MS
    [noted] = [one.change for _, one in await history_of(cluster, "one") if one.change.code == "booked"]
    assert noted.detail.startswith("all 2 running kernels make room for booking demo; it waits again")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "booking demo was removed, or has ended"),
        ({"ahead_ms": 60_000}, "booking demo begins later now"),
        ({"agent": "b"}, "booking demo has other agents now"),
    ],
)
async def test_nothing_leaves_for_a_booking_that_does_not_need_it_any_more(
    cluster: StoredCluster, change: dict[str, Any], problem: str
) -> None:
    if change:
        await book(cluster, **change)
    recorded = await record(cluster, leaving("one.0", "one.1"))
    assert (recorded.evicted, recorded.spared) == ((), {"one": problem})


@pytest.mark.parametrize(
    "triggers",
    [
        (),
        (KernelTrigger.PREPARATION_STARTED,),
        (KernelTrigger.PREPARATION_STARTED, KernelTrigger.PULL_STARTED),
        (KernelTrigger.IMAGE_READY,),
        (KernelTrigger.IMAGE_READY, KernelTrigger.CREATION_REQUESTED),
    ],
    ids=["scheduled", "preparing", "pulling", "prepared", "creating"],
)
async def test_a_session_that_is_starting_leaves_for_a_booking_only(
    cluster: StoredCluster, triggers: tuple[KernelTrigger, ...], request: pytest.FixtureRequest
) -> None:
    await book(cluster)
    await cluster.submit("new", session_type=SessionType.BATCH)
    await cluster.place("new", "a")
    for trigger in triggers:
        await cluster.move("new", trigger, BY_AGENT if trigger is KernelTrigger.PULL_STARTED else BY_COORDINATOR)
    assert "has ended or moved" in (await record(cluster, evicting("new.0"))).refused[SessionId("taker")]
    [evicted] = (await record(cluster, leaving("new.0"))).evicted
    assert (evicted.status, evicted.is_retried) == ("terminating", True)
    assert [one.before for _, one in await history_of(cluster, "new") if one.trigger == "preempted"] == [
        request.node.callspec.id
    ]

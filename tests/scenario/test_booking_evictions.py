"""Bookings evict: what is on their agents leaves in time, is told so, and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.domain.session import PreemptedPolicy, SessionType
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.scheduling.engine.timing.calendar import LENT_MIN_MS
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from tests.scenario.evicting import just_before_notices
from tests.scenario.killable_manager import KillableAllocator, KillableGateway, KillableStore, Killed, KillPoint

pytestmark = pytest.mark.slow  # many cycles through the store per test

GRACE_S, AHEAD_S = 10, 60
WHOLE = {"cpu": 4000}
FOUR: dict[str, Any] = {"slots": WHOLE, "session_type": SessionType.BATCH, "stop_grace_s": GRACE_S}
A1, A2 = AgentId("a1"), AgentId("a2")


async def book(cluster: OrchestratedCluster, name: str = "demo", ahead_s: int = AHEAD_S, **more: Any) -> Booking:
    """Book the first agent, for the default queue; as the API does once it has accepted a booking."""
    begins = cluster.clock.now_ms() + ahead_s * 1000
    given: dict[str, Any] = {"agents": ("a1",), "queues": ("default",), **more}
    booking = Booking(name, begins, begins + 600_000, **given)
    await cluster.stored.put(booking)
    await cluster.hints.set("sessions")
    return booking


async def until(cluster: OrchestratedCluster, at_ms: int) -> None:
    """Let the time pass until a moment."""
    while cluster.clock.now_ms() < at_ms:
        await cluster.pass_time(1)


async def alone(cluster: OrchestratedCluster, name: str = "low", **options: Any) -> None:
    """An agent that a session fills, and that nothing waits for."""
    await cluster.agent("a1", slots=WHOLE)
    await cluster.submit(name, **{**FOUR, **options})
    await cluster.settle()
    assert await cluster.status(name) == "running"


async def test_a_session_without_a_limit_leaves_in_time_though_no_other_waits_and_comes_back(
    cluster: OrchestratedCluster,
) -> None:
    await alone(cluster)
    booking = await book(cluster)
    await until(cluster, booking.from_ms - GRACE_S * 1000 - BOOKING_LEAD_MS - 2_000)
    assert (await cluster.session("low")).evictions == ()
    explained = await WhyService(cluster.store).why(SessionId("low"))
    assert "1 kernel on a1 makes room for booking demo, with notice at" in str(explained.checks)
    await until(cluster, booking.from_ms)
    low = await cluster.session("low")
    [receipt] = low.evictions
    assert (low.status, low.kernels[0].attempt, receipt.for_booking, receipt.action) == (
        "pending",
        2,
        "demo",
        "booking",
    )
    assert receipt.evict_at_ms - receipt.at_ms == GRACE_S * 1000
    assert receipt.evict_at_ms <= booking.from_ms
    assert receipt.ended_ms is not None
    assert receipt.ended_ms <= booking.from_ms
    assert cluster.agents.all[A1].running() == []
    assert cluster.telemetry.counted("evictions_total", action="booking") == 1
    details = [one.change.detail for one in await cluster.history("low")]
    assert any("make room for booking demo; it waits again" in one for one in details)
    explained = await WhyService(cluster.store).why(SessionId("low"))
    assert "booking took all its kernels for booking demo, " not in str(explained.checks)
    assert "booking took all its kernels for booking demo" in str(explained.checks)
    await cluster.agent("a2", slots=WHOLE)
    await cluster.pass_time(60)
    assert (await cluster.status("low"), (await cluster.session("low")).kernels[0].agent_id) == ("running", "a2")


async def test_a_kernel_that_does_not_end_keeps_its_slots_and_the_session_of_the_booking_waits_for_the_proof(
    cluster: OrchestratedCluster,
) -> None:
    await alone(cluster)
    agent = cluster.agents.all[A1]
    agent.script.stubborn = True
    booking = await book(cluster)
    await cluster.submit("inside", booking="demo", **FOUR)
    await until(cluster, booking.from_ms + 5_000)
    assert (await cluster.status("low"), await cluster.status("inside")) == ("terminating", "pending")
    await agent.ends("low.0", 137)
    await cluster.pass_time(3)
    assert (await cluster.status("low"), await cluster.status("inside")) == ("pending", "running")


async def test_a_session_that_does_not_wait_again_ends_with_the_booking_as_the_cause(
    cluster: OrchestratedCluster,
) -> None:
    await alone(cluster, on_preempt=PreemptedPolicy.END)
    booking = await book(cluster)
    await until(cluster, booking.from_ms)
    low = await cluster.session("low")
    assert (low.status, low.cause, low.evictions[-1].for_booking) == ("terminated", "booked", "demo")


async def test_maintenance_evicts_as_well_and_what_may_not_be_evicted_stays(cluster: OrchestratedCluster) -> None:
    await alone(cluster)
    await cluster.agent("a2", slots=WHOLE)
    await cluster.submit("fixed", preemptible=False, **FOUR)
    await cluster.settle()
    booking = await book(cluster, kind=BookingKind.MAINTENANCE, queues=(), agents=("a1", "a2"))
    await until(cluster, booking.from_ms)
    assert (await cluster.status("low"), await cluster.status("fixed")) == ("pending", "running")
    assert cluster.agents.all[A1].running() == []


async def test_a_gang_that_has_its_minimum_elsewhere_shrinks(cluster: OrchestratedCluster) -> None:
    for name in ("a1", "a2"):
        await cluster.agent(name, slots=WHOLE)
    await cluster.submit("gang", kernels=2, min_kernels=1, **FOUR)
    await cluster.settle()
    # Any of the kernels may be the one without which the others cannot go on.
    lead = min((await cluster.session("gang")).kernels, key=lambda one: one.rank or 0)
    other = "a2" if lead.agent_id == "a1" else "a1"
    booking = await book(cluster, agents=(other,))
    await until(cluster, booking.from_ms)
    gang = await cluster.session("gang")
    assert (gang.status, gang.evictions[-1].whole, gang.evictions[-1].kernels) == ("running", False, 1)
    assert cluster.agents.all[AgentId(other)].running() == []


async def evicted_without_notice(cluster: OrchestratedCluster, booking: Booking) -> None:
    """Run rounds until the session has its receipt; its agent is not asked to stop it yet."""
    due_ms = booking.from_ms - GRACE_S * 1000 - BOOKING_LEAD_MS
    await until(cluster, due_ms - 2_000)
    await cluster.clock.advance((due_ms - cluster.clock.now_ms()) / 1000 + 0.5)
    for _ in range(5):
        await cluster.tick()
        if (await cluster.session("low")).evictions:
            break
    assert cluster.agents.all[A1].requests["stop"] == 0


@pytest.mark.parametrize("change", ["removed", "later", "elsewhere"])
async def test_what_has_had_no_notice_runs_on_if_the_booking_does_not_need_its_room_any_more(
    cluster: OrchestratedCluster, change: str
) -> None:
    await alone(cluster)
    await cluster.agent("a2", slots=WHOLE)
    booking = await book(cluster)
    await evicted_without_notice(cluster, booking)
    assert len((await cluster.session("low")).evictions) == 1
    if change == "removed":
        await cluster.store.run(lambda unit: unit.catalog.remove(Booking, "demo"))
    else:
        await book(cluster, **({"ahead_s": 600} if change == "later" else {"ahead_s": 15, "agents": ("a2",)}))
    await cluster.pass_time(5)
    low = await cluster.session("low")
    assert (low.status, low.evictions, low.kernels[0].attempt) == ("running", (), 1)
    assert cluster.agents.all[A1].requests["stop"] == 0
    assert "booking demo does not need its room any more" in str([one.change for one in await cluster.history("low")])


@pytest.mark.parametrize("change", ["removed", "later"])
async def test_a_booking_that_is_withdrawn_while_the_notice_is_being_given_spares_its_victim(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async def is_withdrawn() -> None:
        if change == "removed":
            await cluster.store.run(lambda unit: unit.catalog.remove(Booking, "demo"))
        else:
            await book(cluster, ahead_s=600)

    await alone(cluster)
    booking = await book(cluster)
    await evicted_without_notice(cluster, booking)
    seen = just_before_notices(monkeypatch, is_withdrawn)
    await cluster.tick()
    assert (seen, (await cluster.session("low")).evictions[0].noticed_ms) == ([1], None)
    await cluster.settle()
    low = await cluster.session("low")
    assert (low.status, low.evictions, low.kernels[0].attempt) == ("running", (), 1)
    assert cluster.agents.all[A1].requests["stop"] == 0


async def test_a_session_that_was_evicted_for_a_booking_is_first_if_that_is_removed(
    cluster: OrchestratedCluster,
) -> None:
    await alone(cluster)
    booking = await book(cluster)
    await until(cluster, booking.from_ms - 1_000)
    assert await cluster.status("low") == "pending"
    await cluster.submit("later", **FOUR)
    await cluster.store.run(lambda unit: unit.catalog.remove(Booking, "demo"))
    await cluster.pass_time(3)
    assert (await cluster.status("low"), await cluster.status("later")) == ("running", "pending")


async def test_of_two_bookings_each_has_its_agents_in_time(cluster: OrchestratedCluster) -> None:
    for name, agent in (("one", "a1"), ("two", "a2")):
        await cluster.agent(agent, slots=WHOLE)
        await cluster.submit(name, **FOUR)
        await cluster.settle()
    first = await book(cluster)
    second = await book(cluster, "second", ahead_s=AHEAD_S + 30, agents=("a2",))
    await until(cluster, first.from_ms)
    assert cluster.agents.all[A1].running() == []
    assert await cluster.status("two") == "running"
    await until(cluster, second.from_ms)
    assert cluster.agents.all[A2].running() == []
    assert [one.for_booking for name in ("one", "two") for one in (await cluster.session(name)).evictions] == [
        "demo", "second",
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["pulling", "creating"])
async def test_a_session_that_is_starting_leaves_as_well(cluster: OrchestratedCluster, status: str) -> None:
    agent = await cluster.agent("a1", slots=WHOLE)
    if status == "creating":
        agent.script.slow = True
    else:
        agent.script.pulls.add("python")
    await cluster.submit("low", **FOUR)
    await cluster.settle()
    assert await cluster.status("low") == status
    booking = await book(cluster)
    await until(cluster, booking.from_ms)
    assert [one.for_booking for one in (await cluster.session("low")).evictions] == ["demo"]
    if status == "creating":  # it is stopped as soon as it has started
        await agent.begin("low.0")
        await cluster.pass_time(GRACE_S + 5)
    low = await cluster.session("low")
    assert (low.status, low.kernels[0].attempt, agent.running()) == ("pending", 2, [])


async def test_a_session_borrows_booked_agents_and_leaves_in_time(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots=WHOLE)
    ahead_s = (LENT_MIN_MS + BOOKING_LEAD_MS) // 1000 + GRACE_S + 30
    booking = await book(cluster, ahead_s=ahead_s, return_s=GRACE_S)
    await cluster.submit("guest", borrow=True, **FOUR)
    await cluster.submit("slow", borrow=True, **{**FOUR, "stop_grace_s": GRACE_S + 1})
    await cluster.settle()
    assert (await cluster.status("guest"), await cluster.status("slow")) == ("running", "pending")
    await until(cluster, booking.from_ms)
    guest = await cluster.session("guest")
    assert (guest.status, [one.for_booking for one in guest.evictions]) == ("pending", ["demo"])
    assert cluster.agents.all[A1].running() == []
    # It is not let in again for the seconds that are left.
    assert cluster.agents.all[A1].requests["create"] == 1


def killable(cluster: OrchestratedCluster, kill_point: KillPoint) -> Mapping[str, object]:
    return {
        "store": KillableStore(cluster.store, kill_point),
        "allocator": KillableAllocator(cluster.stored.allocator, kill_point),
        "gateway": KillableGateway(cluster.agents, kill_point),
    }


async def an_eviction(cluster: OrchestratedCluster, kill_point: KillPoint) -> tuple[int, Booking]:
    """A session leaves for a booking; the number of acts before that."""
    cluster.coordinator = cluster.new_coordinator(**killable(cluster, kill_point))
    await alone(cluster)
    booking = await book(cluster)
    begun = kill_point.acts
    with suppress(Killed):
        await until(cluster, booking.from_ms - GRACE_S * 1000)
    return begun, booking


async def test_a_manager_may_die_at_any_moment_and_another_completes_the_eviction(
    cluster: OrchestratedCluster,
) -> None:
    kill_point = KillPoint()
    begun, _ = await an_eviction(cluster, kill_point)
    assert kill_point.acts > begun + 3
    for at in range(begun + 1, kill_point.acts + 1):
        for after in (False, True):
            async with OrchestratedCluster.open() as other:
                point = KillPoint(at=at, after=after)
                _, booking = await an_eviction(other, point)
                assert point.dead
                await other.fail_over()
                await until(other, booking.from_ms + 15_000)
                low = await other.session("low")
                assert (low.status, [one.for_booking for one in low.evictions]) == ("pending", ["demo"])
                assert other.agents.all[A1].running() == []

"""Backfilling in time: no reservation starts later than it was promised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.quick import at_most
from tests.reference.scheduler import reference_schedule

PROFILE = SchedulingProfile(queue_policy="capacity", actions=("allocate",))
LIMITS = (None, 1, 2, 3, 5, 8)


@st.composite
def clusters(draw: st.DrawFn) -> SystemSnapshot:
    """Agents, sessions that run on them, and sessions that wait; some have time limits."""
    agents = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    free = {name: draw(st.integers(1, 4)) for name in agents}
    sizes = dict(free)
    sessions = []
    for index in range(draw(st.integers(3, 8))):
        runs = draw(st.booleans())
        kernels = []
        for part in range(draw(st.integers(1, 3))):
            amount, host = draw(st.integers(1, 3)), draw(st.sampled_from(agents))
            fits = runs and free[host] >= amount
            if fits:
                free[host] -= amount
            if fits or not runs:
                at = AgentId(host) if fits else None
                kernels.append(KernelWorkload(KernelId(f"s{index}.{part}"), ResourceSlot({"cpu": amount}), agent=at))
        limit = draw(st.sampled_from(LIMITS))
        if kernels:
            sessions.append(
                SessionWorkload(
                    SessionId(f"s{index}"), tuple(kernels), submitted=index,
                    queue=QueueName(draw(st.sampled_from(("q0", "q1")))),
                    time_limit_ms=limit, running_since_ms=0 if runs else None,
                )
            )  # fmt: skip
    return seen_at(0, sizes, tuple(sessions))


def seen_at(now_ms: int, sizes: dict[str, int], sessions: tuple[SessionWorkload, ...]) -> SystemSnapshot:
    agents = []
    for name, size in sizes.items():
        here = [kernel for session in sessions for kernel in session.kernels if kernel.agent == name]
        used = total(kernel.slots for kernel in here)
        agents.append(AgentInfo(AgentId(name), ResourceSlot({"cpu": size}), used, kernel_count=len(here)))
    return SystemSnapshot(tuple(agents), sessions, now_ms=now_ms)


def later(snapshot: SystemSnapshot, plan: SchedulingPlan, now_ms: int) -> SystemSnapshot:
    """The cluster after a plan, at a time: all sessions run until the end of their limits."""
    placed = {one.kernel_id: one.agent_id for one in plan.placements}
    sessions = []
    for session in snapshot.sessions:
        kernels = tuple(replace(k, agent=placed.get(k.kernel_id, k.agent)) for k in session.kernels)
        moved = replace(session, kernels=kernels)
        if session.waits and not moved.waits:
            moved = replace(moved, running_since_ms=snapshot.now_ms)
        if moved.running_since_ms is None or moved.ends_by(moved.running_since_ms) > now_ms:
            sessions.append(moved)
    sizes = {str(agent.agent_id): agent.available_slots["cpu"] for agent in snapshot.agents}
    return replace(seen_at(now_ms, sizes, tuple(sessions)), reservations=plan.reservations)


def promised(plan: SchedulingPlan) -> dict[SessionId, int]:
    return {one.session_id: one.starts_ms for one in plan.reservations if one.starts_ms is not None}


@pytest.mark.slow
@at_most(60)
@given(clusters())
def test_no_reservation_starts_later_than_it_was_promised(snapshot: SystemSnapshot) -> None:
    known: dict[SessionId, int] = {}
    for now_ms in range(1, 20):
        plan = schedule(snapshot, PROFILE)
        promises = promised(plan)
        started = {one.session_id for one in plan.placements}
        for session, starts_ms in known.items():
            assert session in started or promises.get(session, starts_ms + 1) <= starts_ms, (session, snapshot.now_ms)
        known = {name: at for name, at in {**known, **promises}.items() if name not in started}
        assert all(at >= snapshot.now_ms for at in known.values())
        snapshot = later(snapshot, plan, now_ms)
    target(float(len(known)))


@pytest.mark.slow
@at_most(60)
@given(clusters())
def test_the_first_promise_is_the_earliest_time_of_brute_force(snapshot: SystemSnapshot) -> None:
    plan = schedule(snapshot, PROFILE)
    if not promised(plan):
        return
    first, starts_ms = next(iter(promised(plan).items()))
    [session] = [one for one in snapshot.sessions if one.session_id == first]
    others = [one for one in later(snapshot, plan, 0).sessions if not one.waits and one.session_id != first]
    sizes = {str(agent.agent_id): agent.available_slots["cpu"] for agent in snapshot.agents}
    for at_ms in range(1, 12):
        there = tuple(one for one in others if one.ends_by(one.running_since_ms or 0) > at_ms)
        decision = reference_schedule(seen_at(at_ms, sizes, (*there, session)), PROFILE)
        if decision.placements:
            # What was placed after the promise does not matter: it ends in time, or leaves enough.
            assert starts_ms == at_ms
            return
    raise AssertionError(f"{first} was promised {starts_ms}, and never fits")


@at_most(60)
@given(clusters())
def test_without_limits_the_plan_is_that_of_a_profile_that_holds_nothing(snapshot: SystemSnapshot) -> None:
    unlimited = replace(snapshot, sessions=tuple(replace(one, time_limit_ms=None) for one in snapshot.sessions))
    assert schedule(unlimited, PROFILE) == schedule(unlimited, replace(PROFILE, reserve_depth=0))

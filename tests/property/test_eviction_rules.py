"""Evictions: what a plan may do to others, said once more without the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251  # drawn by hypothesis

import pytest
from hypothesis import assume, given, target
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.booking import AgentUse, Booking, earliest_start
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import TopologyMode
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.codec import snapshot_to_json
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.engine.timing.booking_evictions import gone_by
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.property.test_evictions import CASES, TAKER, Case, cases, evicted
from tests.quick import at_most
from tests.unit.scheduling.engine.evictions.takers import TakerParts
from tests.unit.scheduling.engine.evictions.test_trial import numbers

USERS = ("ann", "bob", "eve")


def kept_kernels(session: SessionWorkload, gone: frozenset[str]) -> list[KernelWorkload]:
    return [one for one in session.kernels if one.agent is not None and one.kernel_id not in gone]


@at_most(60)
@given(CASES)
def test_no_gang_is_left_below_its_minimum_unless_it_is_gone_or_was_broken(case: Case) -> None:
    gone = evicted(case.plan())
    target(float(len(gone)))
    for session in case.snapshot.sessions:
        before, after = kept_kernels(session, frozenset()), kept_kernels(session, gone)
        broken = len(before) < session.gang_size
        assert len(after) == len(before) or not after or broken or len(after) >= session.gang_size


@at_most(60)
@given(cases("preempt"))
def test_nobody_of_equal_or_higher_priority_is_preempted(case: Case) -> None:
    gone = evicted(case.plan())
    target(float(len(gone)))
    for session in case.snapshot.sessions:
        for kernel in session.kernels:
            if kernel.kernel_id in gone:
                assert session.queue == case.taker.queue
                assert max(session.priority, kernel.priority) < case.taker.priority


def usage_of(case: Case, name: str, gone: frozenset[str]) -> ResourceSlot:
    """The usage of a queue with those below it, and of the taker once it runs."""
    below = {name, *(str(one.name) for one in case.snapshot.queues if one.parent == name)}
    there = [one for one in case.snapshot.sessions if one.queue in below]
    return total(kernel.slots for session in there for kernel in kept_kernels(session, gone))


@at_most(60)
@given(st.one_of(cases("reclaim", queues=2), cases("reclaim", queues=3)))
def test_reclaim_leaves_others_their_guarantee_and_the_taker_within_its_limits(case: Case) -> None:
    plan = case.plan()
    gone = evicted(plan)
    target(float(len(gone)))
    if not gone:
        return
    [held] = [one.kernels for one in plan.reservations if one.session_id == TAKER]
    slots = {one.kernel_id: one.slots for one in case.taker.kernels}
    need = total(slots[kernel] for kernel, _ in held)
    for queue in case.snapshot.queues:
        mine = queue.name == case.taker.queue
        before, after = usage_of(case, str(queue.name), frozenset()), usage_of(case, str(queue.name), gone)
        after = after + need if mine else after
        lost = [slot for slot in before if after[slot] < before[slot]]
        assert all(after[slot] >= queue.guarantee[slot] for slot in lost)
        assert not mine or all(after[slot] <= most for slot, most in queue.capability.items() if slot in need)


@at_most(60)
@given(CASES)
def test_the_room_of_a_hard_topology_is_in_one_hypernode(case: Case) -> None:
    plan, near = case.plan(), case.taker.topology
    if near is None or near.mode is not TopologyMode.HARD or not plan.evictions:
        return
    [reservation] = [one for one in plan.reservations if one.session_id == TAKER]
    assert any(set(reservation.agents) <= set(node.members) for node in case.snapshot.hypernodes)


@at_most(60)
@given(CASES)
def test_a_taker_that_fits_on_idle_room_evicts_nobody(case: Case) -> None:
    more = tuple(AgentInfo(AgentId(f"idle{number}"), ResourceSlot({"cpu": 3, "mem": 4})) for number in range(3))
    roomy = replace(case.snapshot, agents=(*case.snapshot.agents, *more))
    taker = replace(case.taker, topology=None)
    sessions = tuple(taker if one.session_id == TAKER else one for one in roomy.sessions)
    plan = schedule(replace(roomy, sessions=sessions, queues=()), case.profile)
    assert plan.evictions == ()
    assert {one.session_id for one in plan.placements} == {TAKER}


@at_most(60)
@given(CASES)
def test_an_action_that_evicts_nobody_leaves_the_rest_of_the_plan_as_without_it(case: Case) -> None:
    plain, plan = schedule(case.snapshot, replace(case.profile, actions=("allocate",))), case.plan()
    assert plain.evictions == ()
    assert plan.placements == plain.placements
    if not plan.evictions:
        assert plan.reservations == plain.reservations


@at_most(60)
@given(CASES, st.randoms(use_true_random=False))
def test_a_trial_that_is_not_kept_leaves_every_number_as_it_was(case: Case, drawn: Random) -> None:
    made = TakerParts(case.snapshot, case.profile.actions[-1], hierarchy=case.profile.hierarchy)
    before = numbers(made)
    for _ in range(4):
        rows = [row for row in range(len(made.table.kernels)) if drawn.random() < 0.5]
        made.trial.fits(made.pending, rows)
        assert numbers(made) == before


SCRIPT = """
import json, sys
from sokovan.domain.plain_values import to_plain
from sokovan.scheduling.codec import snapshot_from_json
from sokovan.scheduling.engine.timing.booking_evictions import gone_by
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
profile = SchedulingProfile(queue_policy="capacity", actions=("allocate", "preempt"))
for line in sys.stdin:
    print(json.dumps(to_plain(schedule(snapshot_from_json(line), profile))))
"""


@pytest.mark.slow
def test_evictions_do_not_depend_on_the_hash_seed_of_the_process(tmp_path: Path) -> None:
    found: list[Case] = []

    @at_most(40)
    @given(cases("preempt"))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    lines = "".join(json.dumps(json.loads(snapshot_to_json(one.snapshot))) + "\n" for one in found)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], input=lines, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=tmp_path,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert '"action": "preempt"' in outputs[0]


@st.composite
def crowds(draw: st.DrawFn) -> tuple[SystemSnapshot, SchedulingProfile]:
    """Kernels of three users that fill their agents, several takers, and budgets."""
    sessions: list[SessionWorkload] = []
    agents = 0
    for number in range(draw(st.integers(2, 6))):
        count = draw(st.integers(1, 4))
        kernels = tuple(
            KernelWorkload(KernelId(f"v{number}.{at}"), ResourceSlot({"cpu": 1}), agent=AgentId(f"n{agents + at}"))
            for at in range(count)
        )
        agents += count
        least = draw(st.integers(1, count))
        sessions.append(
            SessionWorkload(
                SessionId(f"v{number}"), kernels, submitted=number, min_kernels=least, owner=_owner(draw), priority=0
            )
        )
    for number in range(draw(st.integers(1, 4))):
        kernels = tuple(
            KernelWorkload(KernelId(f"t{number}.{at}"), ResourceSlot({"cpu": 1}))
            for at in range(draw(st.integers(1, 4)))
        )
        sessions.append(
            SessionWorkload(SessionId(f"t{number}"), kernels, submitted=50 + number, owner=_owner(draw), priority=1)
        )
    full = ResourceSlot({"cpu": 1})
    made = tuple(AgentInfo(AgentId(f"n{one}"), full, full, kernel_count=1) for one in range(agents))
    lately = draw(st.dictionaries(st.sampled_from(USERS), st.integers(1, 3)))
    options = EvictionOptions(
        evictions_per_cycle=draw(st.integers(0, 8)), owner_budget=draw(st.sampled_from((0, 25, 50, 100)))
    )
    profile = SchedulingProfile(queue_policy="capacity", actions=("allocate", "preempt"), eviction_options=options)
    return SystemSnapshot(made, tuple(sessions), evicted_lately=lately), profile


def _owner(draw: st.DrawFn) -> Owner:
    user = draw(st.sampled_from(USERS))
    return Owner(user=user, access_key=AccessKey(user))


@at_most(150)
@given(crowds())
def test_no_budget_is_ever_passed(crowd: tuple[SystemSnapshot, SchedulingProfile]) -> None:
    snapshot, profile = crowd
    plan, options = schedule(snapshot, profile), profile.eviction_options
    target(float(len(plan.evictions)))
    assert len(plan.evictions) <= options.evictions_per_cycle
    sessions = {one.session_id: one for one in snapshot.sessions}
    running = Counter(one.owner.user for one in snapshot.sessions for kernel in one.kernels if kernel.agent)
    for user in USERS:
        lost = [
            one.session_id
            for one in plan.evictions
            if sessions[one.session_id].owner.user == user != sessions[one.for_session].owner.user
        ]
        spent = snapshot.evicted_lately.get(user, 0)
        within = (spent + len(lost)) * 100 <= running[user] * options.owner_budget
        assert not lost or within or (spent == 0 and len(set(lost)) == 1)


LIMITS = (None, 1, 2, 4)
BOOKED = AgentId("n0")


@st.composite
def booked(draw: st.DrawFn) -> SystemSnapshot:
    """Two agents, one of them booked; sessions with and without limits wait, some for the booking."""
    from_ms = draw(st.integers(1, 6))
    booking = Booking("demo", from_ms, from_ms + draw(st.integers(1, 8)), agents=(str(BOOKED),), users=("ann",))
    sessions = []
    for number in range(draw(st.integers(2, 7))):
        sizes = draw(st.lists(st.integers(0, 2), min_size=1, max_size=2))
        kernels = tuple(
            KernelWorkload(KernelId(f"s{number}.{at}"), ResourceSlot({"cpu": size} if size else {}))
            for at, size in enumerate(sizes)
        )
        user = draw(st.sampled_from(USERS[:2]))
        sessions.append(
            SessionWorkload(
                SessionId(f"s{number}"), kernels, submitted=number, owner=Owner(user=user, access_key=AccessKey(user)),
                priority=draw(st.integers(0, 2)), time_limit_ms=draw(st.sampled_from(LIMITS)),
                grace_ms=draw(st.integers(0, 1)), booking=draw(st.sampled_from(("", "", "demo"))),
                min_kernels=draw(st.integers(1, len(kernels))),
            )
        )  # fmt: skip
    queue = Queue(QueueName("default"), min_runtime_s=0)
    return SystemSnapshot(_agents(sessions), tuple(sessions), bookings=(booking,), queues=(queue,))


def _agents(sessions: list[SessionWorkload]) -> tuple[AgentInfo, ...]:
    made = []
    for name in (BOOKED, AgentId("n1")):
        here = [one.slots for session in sessions for one in session.kernels if one.agent == name]
        made.append(AgentInfo(name, ResourceSlot({"cpu": 3}), total(here), kernel_count=len(here)))
    return tuple(made)


def after(snapshot: SystemSnapshot, plan: SchedulingPlan, now_ms: int) -> SystemSnapshot:
    """The cluster a moment later: the evicted wait, and sessions run until their limit and grace are over."""
    placed = {one.kernel_id: one.agent_id for one in plan.placements}
    gone = evicted(plan)
    sessions = []
    for session in snapshot.sessions:
        kernels = tuple(
            replace(one, agent=None if one.kernel_id in gone else placed.get(one.kernel_id, one.agent))
            for one in session.kernels
        )
        moved = replace(session, kernels=kernels)
        if moved.waits:
            moved = replace(moved, running_since_ms=None)
        elif session.waits:
            moved = replace(moved, running_since_ms=snapshot.now_ms)
        if moved.running_since_ms is None or moved.ends_by(moved.running_since_ms) > now_ms:
            sessions.append(moved)
    return replace(
        snapshot, agents=_agents(sessions), sessions=tuple(sessions), reservations=plan.reservations, now_ms=now_ms
    )


@pytest.mark.slow
@at_most(100)
@given(booked())
def test_nobody_is_on_a_booking_from_its_beginning_on_but_its_users(snapshot: SystemSnapshot) -> None:
    profile = SchedulingProfile(queue_policy="capacity", actions=("allocate", "preempt", "backfill"))
    [booking], most = snapshot.bookings, 0
    for now_ms in range(1, 16):
        snapshot = after(snapshot, schedule(snapshot, profile), now_ms)
        there = [one for one in snapshot.sessions if any(kernel.agent == BOOKED for kernel in one.kernels)]
        if booking.from_ms <= now_ms < booking.to_ms:
            assert all(one.booking == "demo" and one.owner.user == "ann" for one in there)
        most = max(most, len(there))
    target(float(most))


SECOND = 1_000
# Cycles come at any time: an eviction is decided so much after it is due.
CYCLE = 2_500


@st.composite
def inhabited(draw: st.DrawFn) -> SystemSnapshot:
    """A booking that was accepted for two agents of which sessions use both; others wait, or may borrow them."""
    from_ms = draw(st.integers(12, 100)) * SECOND
    return_s = draw(st.sampled_from((None, 0, 4, 10)))
    booking = Booking(
        "demo", from_ms, from_ms + 40 * SECOND, agents=(str(BOOKED),), users=("ann",),
        return_s=return_s, release_unused_s=draw(st.sampled_from((0, 3_600))),
    )  # fmt: skip
    sessions, free = [], {BOOKED: 3, AgentId("n1"): 3}
    for number in range(draw(st.integers(2, 7))):
        kernels = []
        for at in range(draw(st.integers(1, 2))):
            agent = draw(st.sampled_from((None, *free)))
            agent = agent if agent is not None and free[agent] else None
            if agent is not None:
                free[agent] -= 1
            kernels.append(KernelWorkload(KernelId(f"s{number}.{at}"), ResourceSlot({"cpu": 1}), agent=agent))
        runs = all(kernel.agent for kernel in kernels)
        if not runs:
            for kernel in kernels:
                free.update({kernel.agent: free[kernel.agent] + 1} if kernel.agent else {})
            kernels = [replace(kernel, agent=None) for kernel in kernels]
        user = draw(st.sampled_from(USERS[:2]))
        limit_s = draw(st.sampled_from((None, None, 5, 20, 60)))
        sessions.append(
            SessionWorkload(
                SessionId(f"s{number}"), tuple(kernels), submitted=number,
                owner=Owner(user=user, access_key=AccessKey(user)), min_kernels=draw(st.integers(1, len(kernels))),
                time_limit_ms=None if limit_s is None else limit_s * SECOND, grace_ms=draw(st.integers(0, 10)) * SECOND,
                running_since_ms=0 if runs else None, preemptible=draw(st.integers(0, 5)) > 0,
                borrow=draw(st.booleans()), booking="" if runs else draw(st.sampled_from(("", "", "demo"))),
            )
        )  # fmt: skip
    uses = [
        AgentUse(str(BOOKED), str(one.session_id), *gone_by(one, booking.agents, 0))
        for one in sessions
        if any(kernel.agent == BOOKED for kernel in one.kernels)
    ]
    assume(earliest_start(booking, booking.agents, uses, ())[0] == from_ms)
    return SystemSnapshot(_agents(sessions), tuple(sessions), bookings=(booking,))


class Ending:
    """The kernels that were evicted, each of which uses the whole time from its notice on."""

    def __init__(self) -> None:
        self.ends_ms: dict[str, int] = {}

    def later(self, snapshot: SystemSnapshot, plan: SchedulingPlan, now_ms: int) -> SystemSnapshot:
        """The cluster at the next cycle, after a plan."""
        at_ms = snapshot.now_ms
        self.ends_ms.update({str(one.kernel_id): at_ms + (one.notice_ms or 0) for one in plan.evictions})
        placed = {one.kernel_id: one.agent_id for one in plan.placements}
        lost = {one.session_id for one in plan.evictions}
        sessions = []
        for session in snapshot.sessions:
            kernels = tuple(self._later(kernel, placed.get(kernel.kernel_id), now_ms) for kernel in session.kernels)
            moved = replace(session, kernels=kernels)
            if all(kernel.agent is None for kernel in kernels):
                moved = replace(moved, running_since_ms=None)
            elif session.waits and not all(kernel.releasing for kernel in kernels if kernel.agent):
                moved = replace(moved, running_since_ms=at_ms)
            if session.session_id in lost:
                moved = replace(moved, evictions_ms=(*session.evictions_ms, at_ms))
            if moved.running_since_ms is None or moved.ends_by(moved.running_since_ms) > now_ms:
                sessions.append(moved)
        agents = tuple(
            replace(
                agent,
                releasing_slots=total([one.slots for one in ending]),
                releasing_count=len(ending),
            )
            for agent in _agents(sessions)
            for ending in [[k for s in sessions for k in s.kernels if k.agent == agent.agent_id and k.releasing]]
        )
        return replace(
            snapshot, agents=agents, sessions=tuple(sessions), reservations=plan.reservations, now_ms=now_ms
        )  # fmt: skip

    def _later(self, kernel: KernelWorkload, agent: AgentId | None, now_ms: int) -> KernelWorkload:
        ends_ms = self.ends_ms.get(str(kernel.kernel_id))
        if ends_ms is not None and ends_ms <= now_ms:
            del self.ends_ms[str(kernel.kernel_id)]
            return replace(kernel, agent=None, releasing=False)
        if ends_ms is not None:
            return replace(kernel, releasing=True)
        return kernel if agent is None else replace(kernel, agent=agent)


@pytest.mark.slow
@at_most(100)
@given(inhabited())
def test_nobody_is_on_an_accepted_booking_from_its_beginning_on_whatever_ran_there_before(
    snapshot: SystemSnapshot,
) -> None:
    profile, ending, evicted_for_it = SchedulingProfile(), Ending(), 0
    [booking] = snapshot.bookings
    for now_ms in range(CYCLE, booking.to_ms, CYCLE):
        plan = schedule(snapshot, profile)
        evicted_for_it += len(plan.evictions)
        snapshot = ending.later(snapshot, plan, now_ms)
        there = [one for one in snapshot.sessions if any(kernel.agent == BOOKED for kernel in one.kernels)]
        used = any(one.booking == "demo" for one in there)
        if booking.from_ms <= now_ms < (booking.to_ms if used else booking.released_at()):
            assert all(one.booking == "demo" and one.owner.user == "ann" for one in there)
    target(float(evicted_for_it))

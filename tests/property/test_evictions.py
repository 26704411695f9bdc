"""Evictions: the victims are those that brute force finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import AgentId, KernelId, QueueName, SessionId
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits, total
from sokovan.scheduling.engine.evictions import search
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.extensions import EvictableKernel, SchedulingPlugin
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.quick import at_most
from tests.reference.evictions import EvictionReference

TAKER = SessionId("taker")
# Long enough for sessions of few thousandths of a cpu to lose whole slot minutes.
NOW_MS = 10**9
NEAR = (None, None, TopologyConstraint(TopologyMode.HARD, 1), TopologyConstraint(TopologyMode.SOFT))


@dataclass(frozen=True)
class Case:
    """A snapshot in which one session waits, and a policy that evicts."""

    snapshot: SystemSnapshot
    profile: SchedulingProfile

    @property
    def taker(self) -> SessionWorkload:
        [taker] = [session for session in self.snapshot.sessions if session.session_id == TAKER]
        return taker

    @property
    def reference(self) -> EvictionReference:
        return EvictionReference(self.snapshot, self.profile, self.taker)

    def plan(self) -> SchedulingPlan:
        return schedule(self.snapshot, self.profile)


def evicted(plan: SchedulingPlan) -> frozenset[str]:
    return frozenset(str(one.kernel_id) for one in plan.evictions)


def kernel(
    name: str, slots: dict[str, int], *, agent: str | None = None, priority: int = 0, preemptible: bool = True,
    leads: bool = False, group: str = "",
) -> KernelWorkload:  # fmt: skip
    at = None if agent is None else AgentId(agent)
    return KernelWorkload(
        KernelId(name), ResourceSlot(slots), agent=at, priority=priority, preemptible=preemptible, leads=leads,
        group=group,
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, action: str, *, queues: int = 1, kernels_max: int = 5, size_max: int = 3) -> Case:
    """Some agents, running sessions, and one session of one shape that waits."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    names = [f"n{index}" for index in range(number(1, 4))]
    capacity = {name: {"cpu": number(1, 3), "mem": number(2, 4)} for name in names}
    free = {name: dict(slots) for name, slots in capacity.items()}
    queue_names = [f"q{index}" for index in range(queues)]
    sessions: list[SessionWorkload] = []
    running = 0
    for index in range(number(2, 5)):
        kernels: list[KernelWorkload] = []
        for part in range(number(1, size_max)):
            slots = {"cpu": number(1, 2), **({"mem": number(1, 2)} if number(0, 2) == 0 else {})}
            host = draw(st.sampled_from(names))
            if running < kernels_max and all(free[host][slot] >= amount for slot, amount in slots.items()):
                free[host] = {slot: left - slots.get(slot, 0) for slot, left in free[host].items()}
                may_go = number(0, 6) > 0
                leads = not kernels and number(0, 2) == 0
                kernels.append(
                    kernel(
                        f"v{index}{part}", slots, agent=host, priority=number(0, 2), preemptible=may_go, leads=leads,
                        group="sub" if kernels else "main",
                    )
                )  # fmt: skip
                running += 1
        if kernels:
            sessions.append(
                SessionWorkload(
                    SessionId(f"s{index}"), tuple(kernels), submitted=index, min_kernels=number(0, len(kernels) + 1),
                    queue=QueueName(draw(st.sampled_from(queue_names))), priority=number(0, 2),
                    preemptible=number(0, 8) > 0, group_minimums=draw(st.sampled_from(({}, {}, {"main": 1}))),
                    **_times(draw),
                )
            )  # fmt: skip
    if queues > 1:
        sessions = [_maybe_lent(draw, session, queue_names) for session in sessions]
    wanted = {"cpu": number(1, 3), **({"mem": number(1, 3)} if number(0, 2) == 0 else {})}
    count = number(1, size_max)
    nodes = tuple(HyperNode(f"h{part}", 1, tuple(names[2 * part :][:2])) for part in range(2) if names[2 * part :])
    near = draw(st.sampled_from(NEAR))
    taker = SessionWorkload(
        TAKER, tuple(kernel(f"t{index}", wanted) for index in range(count)), submitted=99, queue=QueueName("q0"),
        priority=3 - number(0, 3) % 3, min_kernels=number(1, count), topology=near,
    )  # fmt: skip
    agents = _agents(capacity, free, sessions)
    made = [_queue(draw, name, hierarchy=queues > 2) for name in queue_names]
    if queues > 2:
        made.append(Queue(name=QueueName("above"), deserved=SlotLimits({"cpu": number(0, 9)})))
    snapshot = SystemSnapshot(agents, (*sessions, taker), queues=tuple(made), hypernodes=nodes, now_ms=NOW_MS)
    options = EvictionOptions(assumed_checkpoint=draw(st.sampled_from((600, 10**6))))
    profile = SchedulingProfile(
        queue_policy="capacity", hierarchy=queues > 2, actions=("allocate", action), eviction_options=options
    )
    return Case(snapshot, profile)


def _agents(
    capacity: Mapping[str, dict[str, int]], free: Mapping[str, dict[str, int]], sessions: Sequence[SessionWorkload]
) -> tuple[AgentInfo, ...]:
    return tuple(
        AgentInfo(
            AgentId(name), ResourceSlot(capacity[name]),
            ResourceSlot({slot: amount - free[name][slot] for slot, amount in capacity[name].items()}),
            kernel_count=sum(k.agent == name for s in sessions for k in s.kernels),
        )
        for name in capacity
    )  # fmt: skip


def _times(draw: st.DrawFn) -> dict[str, Any]:
    """Since when a session runs, if known, and its last checkpoint, if it reports any."""
    ran_s = draw(st.sampled_from((None, None, 50, 200, 100_000, 900_000)))
    if ran_s is None:
        return {}
    since_ms = NOW_MS - ran_s * 1000
    return {
        "running_since_ms": since_ms,
        "checkpoint_ms": draw(st.sampled_from((None, 0, since_ms + ran_s * 250, since_ms + ran_s * 750))),
    }


def _maybe_lent(draw: st.DrawFn, session: SessionWorkload, queues: Sequence[str]) -> SessionWorkload:
    """The session, which may run on what another queue lends."""
    lenders = [QueueName(name) for name in queues if name != session.queue]
    return replace(session, loan=draw(st.sampled_from(lenders))) if draw(st.integers(0, 3)) == 0 else session


def _queue(draw: st.DrawFn, name: str, *, hierarchy: bool) -> Queue:
    deserved = draw(st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 6), "mem": st.integers(0, 6)}))
    guaranteed = {slot: min(amount, draw(st.integers(0, 2))) for slot, amount in deserved.items()}
    limited = draw(st.integers(0, 3)) == 0
    return Queue(
        name=QueueName(name), priority=draw(st.integers(0, 1)), reclaimable=draw(st.integers(0, 5)) > 0,
        deserved=SlotLimits(deserved), guarantee=ResourceSlot(guaranteed) if draw(st.booleans()) else ResourceSlot(),
        capability=SlotLimits({"cpu": max(deserved.get("cpu", 0), draw(st.integers(2, 8)))} if limited else {}),
        min_runtime_s=draw(st.sampled_from((None, 0))),
        parent=QueueName("above") if hierarchy and name != "q0" and draw(st.booleans()) else ROOT_QUEUE,
    )  # fmt: skip


CASES = st.one_of(cases("preempt"), cases("preempt", queues=2), cases("reclaim", queues=2), cases("reclaim", queues=3))


# More kernels than brute force would take, for sets of which several gangs are part.
WIDE = st.one_of(
    *(cases(action, queues=queues, kernels_max=9, size_max=5) for action, queues in (("preempt", 1), ("reclaim", 2)))
)


def check_same(case: Case) -> None:
    """The plan evicts the set that brute force finds, or nothing."""
    plan, reference = case.plan(), case.reference
    if reference.tier_with([]) is not None:
        assert evicted(plan) == frozenset()
        return
    expected = reference.best()
    target(float(0 if expected is None else len(expected[1])))
    assert evicted(plan) == (frozenset() if expected is None else expected[1])


@pytest.mark.slow
@at_most(60)
@given(CASES)
def test_the_victims_are_those_of_brute_force(case: Case) -> None:
    check_same(case)


@pytest.mark.slow
@at_most(60)
@given(CASES, st.sets(st.sampled_from([f"v{session}{part}" for session in range(5) for part in range(3)])))
def test_kernels_that_a_plugin_keeps_count_as_not_preemptible(case: Case, kept: set[str]) -> None:
    class Keeper(SchedulingPlugin):
        name = "keeper"

        def evictable(
            self, taker: SessionWorkload, action: str, victims: Sequence[EvictableKernel]
        ) -> list[EvictableKernel]:
            del taker, action
            return [victim for victim in victims if victim.kernel.kernel_id not in kept]

    # A loan returns to its lender whatever a plugin says.
    lent = (one for one in case.snapshot.sessions if one.loan == case.taker.queue)
    kept = kept.difference(str(k.kernel_id) for one in lent for k in one.kernels)
    registry = replace(BUILT_IN, plugins={"keeper": Keeper})
    plan = schedule(case.snapshot, replace(case.profile, plugins=("keeper",)), registry)
    sessions = tuple(
        replace(
            one, kernels=tuple(replace(k, preemptible=k.preemptible and k.kernel_id not in kept) for k in one.kernels)
        )
        for one in case.snapshot.sessions
    )
    spared = replace(case, snapshot=replace(case.snapshot, sessions=sessions))
    check_same(spared)
    assert evicted(plan) == evicted(spared.plan())


def check_legal(case: Case, plan: SchedulingPlan) -> None:
    """A set is legal and irreducible, and the taker holds its whole minimum."""
    gone, reference = evicted(plan), case.reference
    if not gone:
        return
    kernels = [k for s in case.snapshot.sessions for k in s.kernels if k.kernel_id in gone]
    assert gone <= {k.kernel_id for k in reference.candidates()}
    assert reference.legal(kernels)
    assert reference.irreducible(gone)
    [reservation] = [one for one in plan.reservations if one.session_id == TAKER]
    assert len(reservation.kernels) == case.taker.gang_size
    assert plan.trace[TAKER].code is Code.RESERVED
    assert not plan.placements


@pytest.mark.slow
@at_most(60)
@given(st.one_of(CASES, WIDE))
def test_sets_found_among_many_candidates_are_legal_and_none_is_superfluous(case: Case) -> None:
    before = search.SETS_MAX
    search.SETS_MAX = 0
    try:
        plan = case.plan()
    finally:
        search.SETS_MAX = before
    check_legal(case, plan)
    exact = case.plan()
    assert bool(plan.evictions) or not exact.evictions


@pytest.mark.slow
@at_most(60)
@given(CASES)
def test_a_taker_holds_its_whole_minimum_on_what_is_freed(case: Case) -> None:
    check_legal(case, case.plan())


@pytest.mark.slow
@at_most(60)
@given(CASES)
def test_the_order_of_the_snapshot_does_not_matter(case: Case) -> None:
    turned = replace(
        case.snapshot,
        agents=case.snapshot.agents[::-1],
        sessions=tuple(replace(s, kernels=s.kernels[::-1]) for s in case.snapshot.sessions[::-1]),
        queues=case.snapshot.queues[::-1],
    )
    assert evicted(case.plan()) == evicted(schedule(turned, case.profile))


@at_most(60)
@given(CASES)
def test_what_is_evicted_is_gone_in_the_next_cycle_and_the_taker_starts(case: Case) -> None:
    plan = case.plan()
    gone = evicted(plan)
    if not gone:
        return
    sessions = []
    for session in case.snapshot.sessions:
        kept = tuple(kernel for kernel in session.kernels if kernel.kernel_id not in gone)
        if kept:
            sessions.append(replace(session, kernels=kept, min_kernels=session.gang_size))
    used = {
        agent.agent_id: [k.slots for s in sessions for k in s.kernels if k.agent == agent.agent_id]
        for agent in case.snapshot.agents
    }
    agents = tuple(
        replace(agent, occupied_slots=total(used[agent.agent_id]), kernel_count=len(used[agent.agent_id]))
        for agent in case.snapshot.agents
    )
    later = replace(case.snapshot, sessions=tuple(sessions), agents=agents, reservations=plan.reservations)
    after = schedule(later, case.profile)
    assert not after.evictions
    held = {one.session_id: one.kernels for one in plan.reservations}[TAKER]
    placed = {(one.kernel_id, one.agent_id) for one in after.placements}
    assert set(held) <= placed


@st.composite
def fragmented(draw: st.DrawFn) -> Case:
    """A case in which some of the running sessions may be moved."""
    case = draw(cases("consolidate"))
    sessions = tuple(
        one if one.session_id == TAKER else replace(one, migratable=draw(st.booleans()))
        for one in case.snapshot.sessions
    )
    return replace(case, snapshot=replace(case.snapshot, sessions=sessions))


@pytest.mark.slow
@at_most(100)
@given(fragmented())
def test_consolidation_ends_nothing_and_every_mover_has_a_place(case: Case) -> None:
    plan = case.plan()
    assert plan.evictions == ()
    sessions = {one.session_id: one for one in case.snapshot.sessions}
    kernels = {k.kernel_id: k for one in case.snapshot.sessions for k in one.kernels}
    target(float(len(plan.moves)))
    if not plan.moves:
        return
    assert all(sessions[move.session_id].migratable for move in plan.moves)
    assert all(kernels[move.kernel_id].agent == move.from_agent for move in plan.moves)
    assert len({move.kernel_id for move in plan.moves}) == len(plan.moves)
    [reservation] = [one for one in plan.reservations if one.session_id == TAKER]
    assert len(reservation.kernels) >= case.taker.gang_size
    for session_id in {move.session_id for move in plan.moves}:
        moved = {move.kernel_id for move in plan.moves if move.session_id == session_id}
        kept = [k for k in sessions[session_id].kernels if k.agent is not None and k.kernel_id not in moved]
        assert (
            not kept
            or len(kept) >= sessions[session_id].gang_size
            or len(kept) + len(moved) < (sessions[session_id].gang_size)
        )
    for agent in case.snapshot.agents:
        gone = [kernels[move.kernel_id].slots for move in plan.moves if move.from_agent == agent.agent_id]
        come = [kernels[move.kernel_id].slots for move in plan.moves if move.agent_id == agent.agent_id]
        come += [kernels[one].slots for one, at in reservation.kernels if at == agent.agent_id]
        assert (agent.occupied_slots - total(gone) + total(come)).fits(agent.available_slots)

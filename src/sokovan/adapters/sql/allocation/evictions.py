"""Commits the evictions of a plan: verified again, in one transaction.

The evictions for one taker are committed together or not at all. Their kernels end with a
proof, which frees their slots; until then the taker has a reservation. What a booking evicts is
committed session by session: its agents are kept free for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from sokovan.adapters.sql.allocation.booking_evictions import Bookings, booking_problem, lock_bookings
from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.sessions.session_rows import (
    KernelRow,
    SessionRow,
    chosen_by_id,
    lock_sessions,
    read_records,
)
from sokovan.adapters.sql.repositories.sessions.transitions import Transitions
from sokovan.adapters.sql.schema.tables import AGENTS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import SCHEDULABLE
from sokovan.domain.lifecycle.eviction import (
    BOOKING,
    CONSOLIDATE,
    PREEMPT,
    RECEIPTS_MAX,
    RECLAIM,
    TOOK_ROOM,
    EvictionReceipt,
    choice_text,
    named_to,
)
from sokovan.domain.lifecycle.kernel import ALIVE, FollowUp, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import DETAIL_MAX, Change
from sokovan.domain.session import EndPolicy, SessionSpec
from sokovan.ports.snapshots import RecordedPlan
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.scheduling.snapshot import Reservation, gang_holds, loss_slots, workload_of

WHO = "scheduler"
# The reasons in the histories of the evicted, by action.
REASONS = {PREEMPT: "preempted", RECLAIM: "reclaimed", CONSOLIDATE: "moved", BOOKING: "booked"}
_LISTED_MAX = 5
_ENDS = SESSION.terminal | {SessionStatus.TERMINATING}
# A booking also evicts what is starting on its agents.
_ON_AGENTS = frozenset(SessionStatus(status.value) for status in ALIVE)


@dataclass(frozen=True, slots=True)
class _Taker:
    """The session or the booking that kernels are evicted for."""

    session: SessionSpec | None = None
    booking: str = ""

    def named_to(self, reader: SessionSpec) -> str:
        """Its name in the history of a session; every user may know the names of bookings."""
        return f"booking {self.booking}" if self.session is None else _named(self.session, reader)


@dataclass(slots=True)
class _Victim:
    """A locked session, and the kernels of it that a plan evicts, all like the first of them."""

    session: SessionRow
    spec: SessionSpec
    kernels: list[KernelRow]
    first: Eviction

    @property
    def action(self) -> str:
        """The action that chose the kernels."""
        return self.first.action

    @property
    def notice_ms(self) -> int:
        """The time from the notice to the end."""
        grace_ms = self.spec.stop_grace_s * 1000
        return grace_ms if self.first.notice_ms is None else min(grace_ms, self.first.notice_ms)

    def alive(self) -> list[KernelRow]:
        return [kernel for kernel in self.session.kernels.values() if kernel.status in ALIVE]

    @property
    def whole(self) -> bool:
        """Whether nothing of the session runs on."""
        return len(self.kernels) == len(self.alive())

    def keeps_gang(self) -> bool:
        """Whether what runs on is a gang, unless it was none before.

        Best-effort kernels that wait count as if they ran.
        """
        workload = workload_of(self.spec, submitted=0)
        counted = {one.kernel_id for one in self.alive()}
        waiting = {one.kernel_id for one in self.session.kernels.values() if one.status is KernelStatus.PENDING}
        kernels = [
            one for one in workload.kernels if one.kernel_id in counted or (one.kernel_id in waiting and not one.slots)
        ]
        gone = {one.kernel_id for one in self.kernels}
        left = [one for one in kernels if one.kernel_id not in gone]
        return gang_holds(workload, left) or not gang_holds(workload, kernels)

    def has_lead(self) -> bool:
        """Whether the others cannot go on: they meet at rank 0, or end with the first kernel."""
        main = self.spec.ends_with is EndPolicy.MAIN
        return any(kernel.rank == 0 or (main and kernel.index == 0) for kernel in self.kernels)


@dataclass(slots=True)
class _Locked:
    """The locked rows of a plan's takers and victims, and the bookings that others are evicted for."""

    sessions: Mapping[str, SessionRow]
    specs: Mapping[str, SessionSpec]
    schedulable: frozenset[str]
    bookings: Bookings


async def evict(transaction: Transaction, plan: SchedulingPlan) -> RecordedPlan:
    """Evict kernels for every taker of the plan whose victims are as they were."""
    by_taker: dict[SessionId, list[Eviction]] = {}
    by_victim: dict[SessionId, list[Eviction]] = {}  # of bookings
    evictions = [*plan.evictions, *plan.moved_kernels()]
    for eviction in evictions:
        if eviction.for_booking:
            by_victim.setdefault(eviction.session_id, []).append(eviction)
        else:
            by_taker.setdefault(eviction.for_session, []).append(eviction)
    reserved = {one.session_id: one for one in plan.reservations if one.session_id in by_taker}
    locked = await _lock(transaction, evictions, reserved)
    transitions = Transitions(transaction, Change(WHO, Cause.COORDINATOR))
    changed: dict[str, SessionRow] = {}
    notes: dict[SessionId, Change] = {}
    refused: dict[SessionId, str] = {}
    for taker, some in by_taker.items():
        victims = _victims(locked, some)
        problem = _problem(locked, taker, reserved.get(taker)) or _victim_problem(some, victims)
        if problem:
            refused[taker] = problem
            continue
        for victim in victims.values():
            _evict(transitions, victim, _Taker(locked.specs[taker]))
            changed[victim.session.session_id] = victim.session
        notes[taker] = Change(
            WHO, Cause.COORDINATOR, TOOK_ROOM, _receipt_text(list(victims.values()), locked.specs[taker])
        )
    spared: dict[SessionId, str] = {}
    for session_id, some in by_victim.items():
        victims = _victims(locked, some)
        problem = booking_problem(locked.bookings, some, transaction.now_ms) or _victim_problem(some, victims)
        if problem:
            spared[session_id] = problem
            continue
        _evict(transitions, victims[session_id], _Taker(booking=some[0].for_booking))
        changed[session_id] = victims[session_id].session
    if changed:
        await transitions.write()
    for taker, change in notes.items():
        await history.note(transaction, SESSION, SESSIONS, ids=[taker], change=change)
    records = await transitions.records(list(changed.values())) if changed else []
    return RecordedPlan(tuple(records), refused, spared)


async def _lock(
    transaction: Transaction, evictions: Sequence[Eviction], reserved: Mapping[SessionId, Reservation]
) -> _Locked:
    """Lock takers and victims by id, then bookings; read the agents that takers are to start on."""
    takers = (one.for_session for one in evictions if not one.for_booking)
    ids = sorted({*(one.session_id for one in evictions), *takers})
    chosen = chosen_by_id(transaction.postgresql)
    records = {one.session_id: one for one in await read_records(transaction, chosen, bound_ids(transaction, ids))}
    sessions = await lock_sessions(transaction, ids, known=records, wanted=None)
    agents = sorted({agent for one in reserved.values() for agent in one.agents})
    wanted = sa.select(ids_table(transaction.postgresql).c.id)
    found = await transaction.fetch(
        sa.select(AGENTS.c.agent_id, AGENTS.c.status).where(AGENTS.c.agent_id.in_(wanted)),
        bound_ids(transaction, agents),
    )
    schedulable = frozenset(row.agent_id for row in found if row.status in SCHEDULABLE)
    bookings = await lock_bookings(transaction) if any(one.for_booking for one in evictions) else {}
    return _Locked(sessions, {one: record.spec for one, record in records.items()}, schedulable, bookings)


def _victims(locked: _Locked, evictions: Sequence[Eviction]) -> dict[SessionId, _Victim]:
    """The victims as they are now; kernels that have ended or moved are left out."""
    found: dict[SessionId, _Victim] = {}
    for one in evictions:
        session = locked.sessions.get(one.session_id)
        if session is None or session.goal is not Goal.RUN:
            continue
        if session.status not in (_ON_AGENTS if one.for_booking else {SessionStatus.RUNNING}):
            continue
        victim = found.setdefault(one.session_id, _Victim(session, locked.specs[one.session_id], [], one))
        kernel = session.kernels.get(one.kernel_id)
        if kernel is not None and kernel.status in ALIVE and kernel.agent_id == one.agent_id:
            victim.kernels.append(kernel)
    for victim in found.values():
        if victim.has_lead():
            victim.kernels = victim.alive()
    return found


def _problem(locked: _Locked, taker: SessionId, reservation: Reservation | None) -> str:
    """Why nothing may be evicted for a taker any more; empty if it may."""
    session = locked.sessions.get(taker)
    if session is None or session.goal is not Goal.RUN or session.status in _ENDS:
        return "it does not wait any more"
    if reservation is None:
        return "it has no reservation"
    for kernel_id, agent_id in reservation.kernels:
        if session.kernels[kernel_id].status is not KernelStatus.PENDING:
            return f"kernel {kernel_id} does not wait any more"
        if agent_id not in locked.schedulable:
            return f"agent {agent_id} accepts no new kernels"
    return ""


def _victim_problem(evictions: Sequence[Eviction], victims: Mapping[SessionId, _Victim]) -> str:
    """Why these victims may not be evicted any more; empty if they may."""
    chosen = {kernel.kernel_id for victim in victims.values() for kernel in victim.kernels}
    for one in evictions:
        if one.kernel_id not in chosen:
            return f"kernel {one.kernel_id}, which was to be evicted, has ended or moved"
    for victim in victims.values():
        left = len(victim.alive()) - len(victim.kernels)
        if left and not victim.keeps_gang():
            fewer = "fewer than its minimum" if left < victim.session.row.required else "too few of a kernel group"
            return f"session {victim.session.session_id} would keep {left} kernels, {fewer}"
    return ""


def _evict(transitions: Transitions, victim: _Victim, taker: _Taker) -> None:
    session, whole = victim.session, victim.whole
    moves = victim.action == CONSOLIDATE
    returns = not whole or victim.spec.returns or moves
    fate = "it waits again" if whole and returns else "it ends" if whole else "it goes on with fewer kernels"
    fate = "these start again on other agents" if moves else fate
    count = f"all {len(victim.kernels)}" if whole else f"{len(victim.kernels)} of {len(victim.alive())}"
    why = choice_text(victim.first.rule, victim.first.cost, victim.first.runner_up)
    detail = "; ".join(
        part for part in (f"{count} running kernels make room for {taker.named_to(victim.spec)}", fate, why) if part
    )
    transitions.change = Change(WHO, Cause.COORDINATOR, REASONS.get(victim.action, victim.action), detail)
    receipt = _receipt(transitions.transaction.now_ms, victim, taker, returns=returns)
    session.evictions = [*session.evictions, receipt][-RECEIPTS_MAX:]
    # A session that does not return is stopped like by its user, and has the eviction as the cause of its end.
    trigger = KernelTrigger.EVICTED if returns else KernelTrigger.STOP_REQUESTED
    for kernel in victim.kernels:
        kernel.follow_up = FollowUp.REQUEUE if returns else None
        transitions.move_kernel(session, kernel, trigger)
    transitions.settle(session, trigger)


def _receipt(now_ms: int, victim: _Victim, taker: _Taker, *, returns: bool) -> EvictionReceipt:
    session, asks = victim.session, taker.session
    ran = returns and all(kernel.status is KernelStatus.RUNNING for kernel in victim.kernels)
    saved, start_ms, every_s = session.checkpoint, session.since_ms, victim.spec.checkpoint_s
    said_ms = start_ms if every_s is None else max(start_ms, now_ms - every_s * 1000)
    reported = saved is not None and saved.at_ms > said_ms
    return EvictionReceipt(
        number=session.evictions[-1].number + 1 if session.evictions else 1,
        attempt=max(kernel.attempt for kernel in victim.kernels),
        at_ms=now_ms,
        for_session=SessionId("") if asks is None else asks.session_id,
        for_user="" if asks is None else asks.owner.user,
        for_name="" if asks is None else asks.name,
        action=victim.action,
        kernels=len(victim.kernels),
        whole=victim.whole,
        slots=sum(loss_slots(kernel.slots) for kernel in victim.kernels),
        saved_ms=saved.at_ms if saved is not None and reported else said_ms,
        reported=reported,
        evict_at_ms=now_ms + victim.notice_ms,
        ran_since_ms=start_ms if ran else None,
        saves_every_s=every_s if said_ms > start_ms else None,
        rule=victim.first.rule,
        cost=victim.first.cost,
        runner_up=victim.first.runner_up,
        for_booking=taker.booking,
    )


def _receipt_text(every: Sequence[_Victim], taker: SessionSpec) -> str:
    """The receipt of a taker: from whom it takes how much, and the lost work."""
    named = ", ".join(f"{len(one.kernels)} of {_named(one.spec, taker)}" for one in every[:_LISTED_MAX])
    more = f", and of {len(every) - _LISTED_MAX} more sessions" if len(every) > _LISTED_MAX else ""
    lost_s = sum(one.session.evictions[-1].lost_s for one in every)
    kernels = sum(len(one.kernels) for one in every)
    evicted = "1 kernel is evicted" if kernels == 1 else f"{kernels} kernels are evicted"
    text = f"{evicted} for it ({named}{more}), which loses {lost_s} slot seconds of work"
    first = every[0].first
    why = choice_text(first.rule, first.cost, first.runner_up)
    return (f"{text}; {why}" if why else text)[:DETAIL_MAX]


def _named(session: SessionSpec, reader: SessionSpec) -> str:
    """A session in the history of another, whose user may not know it."""
    return named_to(reader.owner.user, user=session.owner.user, session_id=session.session_id, name=session.name)

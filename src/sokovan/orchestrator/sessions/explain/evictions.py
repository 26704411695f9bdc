"""Explains evictions: to those who lost kernels, and before they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.durations import duration_text_of
from sokovan.domain.lifecycle.eviction import (
    BOOKING_REMOVED,
    ROOM_FREED,
    TOOK_ROOM,
    EvictionReceipt,
    TakerState,
    choice_text,
    kernels_text,
    recent,
    room_back_ms,
    waits_until_ms,
)
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import HistoryEntry, SessionRecord
from sokovan.orchestrator.sessions.explain.departures import departures_of
from sokovan.orchestrator.sessions.explain.explanations import PlannedVictim
from sokovan.orchestrator.sessions.explain.reasons import HIDDEN
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.engine.timing.booking_evictions import Departure
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Check

EVICTED = "evicted"
EVICTS = "evicts"
LEAVES = "booking"
_SHOWN_MAX = 3
# Each victim has a note of its own, besides that of the choice.
_TAKEN_MAX = 12
# The victims of one session that are listed.
_VICTIMS_MAX = 100


async def read_eviction_checks(
    unit: UnitOfWork, session: SessionRecord, history: Sequence[HistoryEntry]
) -> tuple[Check, ...]:
    """The evictions of a session and for it, and those that it has before it."""
    return (
        *eviction_checks(session, now_ms=unit.now_ms, taker=await _taker_state(unit, session)),
        *taken_checks(history),
        *departure_checks(await departures_of(unit, session)),
    )


async def _taker_state(unit: UnitOfWork, session: SessionRecord) -> TakerState | None:
    """The state of what a waiting session was evicted for last."""
    if booking := booking_of(session):
        [found] = await unit.catalog.find((Booking, booking))
        return BOOKING_REMOVED if found is None else None
    ids = taker_of(session)
    for taker in await unit.sessions.page(SessionFilter(ids=ids), limit=1) if ids else ():
        return TakerState(taker.status, taker.scheduled_ms, taker.ended_ms)
    return None


def taker_of(session: SessionRecord) -> tuple[SessionId, ...]:
    """The session that a waiting one was evicted for last, if it was for one."""
    last = _last_of_waiting(session)
    return () if last is None or last.for_booking else (last.for_session,)


def booking_of(session: SessionRecord) -> str:
    """The booking that a waiting session was evicted for last, if it was for one."""
    last = _last_of_waiting(session)
    return "" if last is None else last.for_booking


def _last_of_waiting(session: SessionRecord) -> EvictionReceipt | None:
    counted = recent(session.evictions) if session.status is SessionStatus.PENDING else ()
    return counted[-1] if counted else None


def eviction_checks(session: SessionRecord, *, now_ms: int, taker: TakerState | None = None) -> tuple[Check, ...]:
    """The last evictions of a session, and when it may start again.

    `taker` is the session or booking of the last one.
    """
    checks = [Check(EVICTED, "ok", _receipt_text(one, session)) for one in session.evictions[-_SHOWN_MAX:]]
    if session.status is SessionStatus.PENDING and room_back_ms(session.evictions, taker) is not None:
        what = "booking" if booking_of(session) else "session"
        return (
            *checks,
            Check(EVICTED, "ok", f"the {what} it was evicted for does not need its room: it waits no longer"),
        )
    left_ms = waits_until_ms(session.evictions) - now_ms
    if session.status is SessionStatus.PENDING and left_ms > 0:
        checks.append(Check(EVICTED, "no", f"it waits {duration_text_of(left_ms)} more before it is tried again"))
    return tuple(checks)


def _receipt_text(receipt: EvictionReceipt, session: SessionRecord) -> str:
    taker = receipt.taker_named_to(session.spec.owner.user) or HIDDEN
    count = "all its kernels" if receipt.whole else f"{receipt.kernels} of its kernels"
    why = choice_text(receipt.rule, receipt.cost, receipt.runner_up)
    text = f"{receipt.action} took {count} for {taker}" + (f", {why}" if why else "")
    if receipt.ended_ms is None:
        return f"{text}; they have not ended yet"
    return f"{text}; {receipt.lost_s} slot seconds of work since {receipt.since()} were lost"


def departure_checks(departures: Sequence[Departure]) -> tuple[Check, ...]:
    """The evictions for bookings that a running session has before it."""
    return tuple(Check(LEAVES, "ok", _departure_text(one)) for one in departures[:_SHOWN_MAX])


def _departure_text(leaves: Departure) -> str:
    agents = sorted({str(one.agent) for one in leaves.kernels})
    more = f" and {len(agents) - _SHOWN_MAX} more" if len(agents) > _SHOWN_MAX else ""
    room = "makes" if len(leaves.kernels) == 1 else "make"
    return (
        f"{kernels_text(len(leaves.kernels))} on {', '.join(agents[:_SHOWN_MAX])}{more} {room} room for booking "
        f"{leaves.booking.name}, with notice at {_time_text(leaves.at_ms)}, unless it has ended before"
    )


def _time_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def taken_checks(history: Sequence[HistoryEntry]) -> tuple[Check, ...]:
    """Evictions for a session, and the work lost by them, from its history."""
    notes = [one.change for one in history if one.change.code in {TOOK_ROOM, ROOM_FREED}]
    choices = [index for index, change in enumerate(notes) if change.code == TOOK_ROOM][-_SHOWN_MAX:]
    ends = [index for index, change in enumerate(notes) if change.code == ROOM_FREED][-_TAKEN_MAX:]
    shown = [Check(EVICTS, "ok", notes[index].detail) for index in sorted((*choices, *ends))]
    if earlier := len(notes) - len(shown):
        more = "1 more note is" if earlier == 1 else f"{earlier} more notes are"
        shown.append(Check(EVICTS, "ok", f"{more} in its history"))
    return tuple(shown)


def planned_victims(plan: SchedulingPlan, snapshot: SystemSnapshot, session_id: str) -> tuple[PlannedVictim, ...]:
    """The sessions that would lose kernels for this one, in the order of the plan."""
    taken: dict[SessionId, list[Eviction]] = {}
    for one in (*plan.evictions, *plan.moved_kernels()):
        if one.for_session == session_id:
            taken.setdefault(one.session_id, []).append(one)
    sessions = {one.session_id: one for one in snapshot.sessions if one.session_id in taken}
    return tuple(
        PlannedVictim(
            session=victim,
            user=sessions[victim].owner.user,
            action=some[0].action,
            kernels=len(some),
            whole=len(some) == sum(kernel.agent is not None for kernel in sessions[victim].kernels),
            lost_s=sum(one.lost_s for one in some),
            rule=some[0].rule,
            cost=some[0].cost,
            runner_up=some[0].runner_up,
        )
        for victim, some in list(taken.items())[:_VICTIMS_MAX]
    )


def shown_victims(victims: Sequence[PlannedVictim], names: Mapping[SessionId, str]) -> tuple[PlannedVictim, ...]:
    """The victims with names of those that are visible, without ids of others."""
    return tuple(
        replace(one, name=names[SessionId(one.session)]) if one.session in names else replace(one, session="")
        for one in victims
    )


def planned_evictions(plan: SchedulingPlan, session_id: str) -> tuple[Check, ...]:
    """The victims that a session would have, without their names: they may be others'."""
    mine = [one for one in (*plan.evictions, *plan.moved_kernels()) if one.for_session == session_id]
    if not mine:
        return ()
    sessions = len({one.session_id for one in mine})
    lost_s = sum(one.lost_s for one in mine)
    detail = (
        f"{mine[0].action} would take {kernels_text(len(mine))} of {sessions} session{'s' * (sessions > 1)}, "
        f"which would lose {lost_s} slot seconds of work"
    )
    why = choice_text(mine[0].rule, mine[0].cost, mine[0].runner_up)
    detail += f"; {why}" if why else ""
    return (Check(EVICTS, "ok", detail),)

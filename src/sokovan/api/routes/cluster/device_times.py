"""Converts device times, drains and bookings to wire types."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sokovan.api.mapping.times import time_text, time_text_or_none
from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.access import Ownership
from sokovan.domain.records import AgentRecord, DeviceHold, HistoryEntry, KeptRoom
from sokovan.orchestrator.sessions.explain.departures import booked_agents
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import AgentClosedView, DeviceHoldView, KeptRoomView, TimelineBookingView


def _sees(scope: Ownership, user: str, domain: str) -> bool:
    return scope.user in {"", user} and scope.domain in {"", domain}


def hold_view(hold: DeviceHold, scope: Ownership) -> DeviceHoldView:
    """A hold; its session is named if it is within what the caller sees."""
    one = hold.device
    seen = _sees(scope, one.user, one.domain)
    return DeviceHoldView(
        agent=one.agent_id,
        device=one.device_id,
        units=one.units,
        since=time_text(hold.from_ms),
        until=time_text_or_none(hold.to_ms),
        session=one.session_id if seen else "",
        name=one.name if seen else "",
        user=one.user if seen else "",
        queue=one.queue if seen else "",
    )


def kept_view(room: KeptRoom, scope: Ownership) -> KeptRoomView:
    """Kept room; its session is named if it is within what the caller sees."""
    seen = _sees(scope, room.user, room.domain)
    return KeptRoomView(
        agent=room.agent_id,
        kernels=room.kernels,
        starts_at=time_text_or_none(room.from_ms),
        session=room.session_id if seen else "",
        name=room.name if seen else "",
        user=room.user if seen else "",
    )


def closed_views(
    agent: AgentRecord, history: Sequence[HistoryEntry], *, from_ms: int, to_ms: int
) -> list[AgentClosedView]:
    """The times in which an agent was not ALIVE, of its history in order."""
    moves = [one for one in history if one.after != one.before]
    ends: list[int | None] = [*(one.at_ms for one in moves[1:]), None]
    return [
        AgentClosedView(
            agent=agent.info.agent_id,
            status=one.after,
            since=time_text(one.at_ms),
            until=time_text_or_none(ended_ms),
        )
        for one, ended_ms in zip(moves, ends, strict=True)
        if one.after != AgentStatus.ALIVE.value
        and one.at_ms < to_ms
        and (ended_ms is None or ended_ms > max(from_ms, one.at_ms))
    ]


async def booking_views(
    unit: UnitOfWork, names: Collection[str], *, from_ms: int, to_ms: int
) -> list[TimelineBookingView]:
    """The bookings within a time that are on any of these agents."""
    found = [one for one in await unit.catalog.all(Booking) if one.from_ms < to_ms and one.to_ms > from_ms]
    if not found:
        return []
    state = await topology_state(unit)
    on = {one.name: sorted(set(names).intersection(booked_agents(one, state))) for one in found}
    return [
        TimelineBookingView(
            name=one.name,
            kind="booking" if one.kind is BookingKind.BOOKING else "maintenance",
            starts_at=time_text(one.from_ms),
            ends_at=time_text(one.to_ms),
            agents=on[one.name],
        )
        for one in found
        if on[one.name]
    ]

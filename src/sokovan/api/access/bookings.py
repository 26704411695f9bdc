"""Acceptance of bookings: sessions on their agents, other bookings, owners."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.mapping.times import time_text
from sokovan.domain.cluster.booking import (
    BOOKINGS_MAX,
    AgentUse,
    Booking,
    BookingKind,
    agents_in_use,
    agents_with,
    earliest_start,
)
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.errors import BookingConflict, Conflict, InvalidSpec, ObjectNotFound
from sokovan.domain.owners.tenancy import Group, User
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.explain.departures import booked_agents, live_sessions, uses_of
from sokovan.orchestrator.topology_changes import TopologyState, topology_state
from sokovan.ports.storage import UnitOfWork

# Later times that are tried for a booking of slots that cannot be met.
TIMES_TRIED = 64


async def require_known_owners(unit: UnitOfWork, booking: Booking, before: Booking | None) -> None:
    """Raise ObjectNotFound for an added user, group or queue that does not exist."""
    kept = set(_permitted(before)) if before is not None else set()
    added = [one for one in _permitted(booking) if one not in kept]
    for (kind, name), found in zip(added, await unit.catalog.find(*added), strict=True):
        if found is None:
            raise ObjectNotFound(what=kind.__name__.lower(), name=name)


def _permitted(booking: Booking) -> Iterator[tuple[type[User | Group | Queue], str]]:
    for kind, names in ((User, booking.users), (Group, booking.groups), (Queue, booking.queues)):
        yield from ((kind, name) for name in names)


async def agent_uses(unit: UnitOfWork, agents: Collection[str] | None = None, *, besides: str = "") -> list[AgentUse]:
    """The uses of agents by sessions, and by when each has ended.

    By itself, or by an eviction that begins now. Of all agents by default, without evictions. Sessions
    of the booking `besides` are left out.
    """
    return [
        use
        async for session in live_sessions(unit)
        if not besides or session.spec.booking != besides
        for use in uses_of(session, agents, unit.now_ms)
    ]


async def with_agents(unit: UnitOfWork, booking: Booking) -> Booking:
    """The booking with agents that have its slots, unless it names some.

    Of the first scaling group by name whose free agents have enough. Raises BookingConflict.
    From here on no allocation commits that this transaction does not see.
    """
    await unit.catalog.lock(Booking)
    if booking.agents or not booking.slots:
        return booking
    _require_sensible(booking, unit.now_ms)
    state = await topology_state(unit)
    known = [(one, booked_agents(one, state)) for one in await unit.catalog.all(Booking) if one.to_ms > unit.now_ms]
    everywhere = frozenset(str(one.info.agent_id) for one in state.agents)
    uses: list[AgentUse] = []
    # Those that are free in any case come first, then those that others have to leave.
    for evicted_from in (None, everywhere):
        uses = _latest(await agent_uses(unit, evicted_from, besides=booking.name))
        if agents := _chosen(booking, state, agents_in_use(booking, uses, known)):
            return dataclasses.replace(booking, agents=agents)
    if not _chosen(booking, state, ()):
        problem = f"the agents of no scaling group have {format_slots(booking.slots)}"
        raise BookingConflict(f"booking {booking.name} cannot be met: {problem}", hint="choose less")
    length_ms, hint = booking.to_ms - booking.from_ms, "choose another time, or less"
    ends = {use.ends_ms for use in uses if use.ends_ms is not None} | {other.to_ms for other, _ in known}
    for at_ms in sorted(at_ms for at_ms in ends if at_ms > booking.from_ms)[:TIMES_TRIED]:
        later = dataclasses.replace(booking, from_ms=at_ms, to_ms=at_ms + length_ms)
        if _chosen(later, state, agents_in_use(later, uses, known)):
            hint = f"the earliest time is {time_text(at_ms)}; or choose less"
            break
    problem = f"the agents of no scaling group that are free then have {format_slots(booking.slots)}"
    raise BookingConflict(f"booking {booking.name} cannot be met: {problem}", hint=hint)


def _latest(uses: Iterable[AgentUse]) -> list[AgentUse]:
    """The use of each agent that ends last."""
    latest: dict[str, AgentUse] = {}
    for use in uses:
        known = latest.get(use.agent)
        if known is None or use.ends_ms is None or (known.ends_ms is not None and use.ends_ms > known.ends_ms):
            latest[use.agent] = use
    return list(latest.values())


def _chosen(booking: Booking, state: TopologyState, busy: Collection[str]) -> tuple[str, ...]:
    """Agents with the slots of a booking, of the first scaling group that has them."""
    groups: dict[str, dict[str, ResourceSlot]] = {}
    for one in state.agents:
        if one.info.schedulable and one.info.agent_id not in busy:
            groups.setdefault(one.info.scaling_group, {})[str(one.info.agent_id)] = one.info.available_slots
    chosen = (agents_with(booking.slots, candidates) for _, candidates in sorted(groups.items()))
    return next((agents for agents in chosen if agents), ())


async def permit_booking(
    unit: UnitOfWork,
    _principal: AuthenticatedPrincipal,
    booking: Booking | None,
    before: Booking | None,
    *,
    dry_run: bool = False,
) -> None:
    """Reject a booking that cannot be met, or for owners that do not exist.

    Raises BookingConflict, InvalidSpec, ObjectNotFound.
    """
    if booking is None:
        return
    _require_sensible(booking, unit.now_ms)
    await require_known_owners(unit, booking, before)
    others = [one for one in await unit.catalog.all(Booking) if one.name != booking.name]
    if not dry_run:
        await _make_room(unit, others)
    state = await topology_state(unit)
    live = [one for one in others if one.to_ms > unit.now_ms]
    agents = booked_agents(booking, state, required=True)
    uses = await agent_uses(unit, frozenset(agents), besides=booking.name)
    known = [(one, booked_agents(one, state)) for one in live]
    starts_ms, reason = earliest_start(booking, agents, uses, known)
    if starts_ms is None:
        hint = "choose other agents, or end the session first; those that may be evicted are not in the way"
        raise BookingConflict(f"booking {booking.name} cannot be met: {reason}", hint=hint)
    if starts_ms > booking.from_ms:
        hint = f"the earliest time is {time_text(starts_ms)}; or choose other agents"
        raise BookingConflict(f"booking {booking.name} cannot be met: {reason}", hint=hint)


def _require_sensible(booking: Booking, now_ms: int) -> None:
    what = f"booking {booking.name}"
    if booking.to_ms <= now_ms:
        raise InvalidSpec(what=what, field="ends_at", value=time_text(booking.to_ms), problem="is in the past")
    if booking.kind is BookingKind.BOOKING and not (booking.users or booking.groups or booking.queues):
        problem = "it has no users: name users, groups or queues"
        raise InvalidSpec(what=what, field="users", value=booking.users, problem=problem)


async def _make_room(unit: UnitOfWork, others: Collection[Booking]) -> None:
    """Remove bookings that have ended if too many are stored."""
    if len(others) < BOOKINGS_MAX:
        return
    ended = [one for one in others if one.to_ms <= unit.now_ms]
    for one in ended:
        await unit.catalog.remove(Booking, one.name)
    if len(others) - len(ended) >= BOOKINGS_MAX:
        raise Conflict(f"there are {BOOKINGS_MAX} bookings already", hint="remove one of them first")

"""Routes of bookings: readable by all users, changed by administrators.

A booking is accepted only if it can be met. Users do not see who else may use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.bookings import agent_uses, require_known_owners
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import booking_of, booking_view
from sokovan.api.mapping.times import time_text
from sokovan.api.operations import ApiOperation
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.api.routes.parameters import Name, Replace
from sokovan.domain.cluster.booking import (
    BOOKINGS_MAX,
    Booking,
    BookingKind,
    agents_in_use,
    agents_with,
    earliest_start,
)
from sokovan.domain.errors import BookingConflict, Conflict, InvalidSpec, ObjectNotFound
from sokovan.domain.owners.access import Action, ObjectKind, role_may
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.topology_changes import TopologyState, topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.fleet import BookingBody, BookingPage


async def with_agents(unit: UnitOfWork, booking: Booking) -> Booking:
    """The booking with agents that have its slots, unless it names some.

    Of the first scaling group by name whose free agents have enough. Raises BookingConflict.
    From here on no allocation commits that this transaction does not see.
    """
    await unit.catalog.lock(Booking)
    if booking.agents or not booking.slots:
        return booking
    state = await topology_state(unit)
    known = [(one, booked_agents(one, state)) for one in await unit.catalog.all(Booking) if one.to_ms > unit.now_ms]
    busy = agents_in_use(booking, [use async for use in agent_uses(unit)], known)
    groups: dict[str, dict[str, ResourceSlot]] = {}
    for one in state.agents:
        if one.info.schedulable and one.info.agent_id not in busy:
            groups.setdefault(one.info.scaling_group, {})[str(one.info.agent_id)] = one.info.available_slots
    for _, candidates in sorted(groups.items()):
        chosen = agents_with(booking.slots, candidates)
        if chosen:
            return dataclasses.replace(booking, agents=chosen)
    problem = f"the agents of no scaling group that are free then have {format_slots(booking.slots)}"
    raise BookingConflict(f"booking {booking.name} cannot be met: {problem}", hint="choose another time, or less")


async def permit_booking(
    unit: UnitOfWork, _principal: AuthenticatedPrincipal, booking: Booking | None, before: Booking | None
) -> None:
    """Reject a booking that cannot be met, or for owners that do not exist.

    Raises BookingConflict, InvalidSpec, ObjectNotFound.
    """
    if booking is None:
        return
    _require_sensible(booking, unit.now_ms)
    await require_known_owners(unit, booking, before)
    others = [one for one in await unit.catalog.all(Booking) if one.name != booking.name]
    await _make_room(unit, others)
    state = await topology_state(unit)
    live = [one for one in others if one.to_ms > unit.now_ms]
    uses = [use async for use in agent_uses(unit)]
    agents = booked_agents(booking, state, required=True)
    known = [(one, booked_agents(one, state)) for one in live]
    starts_ms, reason = earliest_start(booking, agents, uses, known)
    if starts_ms is None:
        hint = "choose other agents, or end the session first"
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


def booked_agents(booking: Booking, state: TopologyState, *, required: bool = False) -> Collection[str]:
    """The agents of a booking. Raises ObjectNotFound if one is required and missing."""
    known = {str(one.info.agent_id) for one in state.agents}
    if booking.hypernode is None:
        missing = [one for one in booking.agents if one not in known]
        if missing and required:
            raise ObjectNotFound(what="agent", name=missing[0])
        return booking.agents
    if any(node.name == booking.hypernode for node in state.hypernodes):
        return tuple(map(str, state.tree.agents_under(booking.hypernode)))
    if required:
        raise ObjectNotFound(what="HyperNode", name=booking.hypernode)
    return ()


def without_strangers(principal: AuthenticatedPrincipal, booking: Booking) -> Booking:
    """The booking as the caller may see it.

    Those who may not change it see of its users and groups only themselves and their own.
    """
    subject = principal.subject
    if role_may(subject, Action.CHANGE, ObjectKind.BOOKING):
        return booking
    users = tuple(user for user in booking.users if user == subject.user)
    return dataclasses.replace(
        booking, users=users, groups=tuple(one for one in booking.groups if one in subject.groups)
    )


BOOKINGS = Resource(
    path="bookings",
    kind=ObjectKind.BOOKING,
    item=Booking,
    body=BookingBody,
    page=BookingPage,
    view=booking_view,
    build=booking_of,
    complete=with_agents,
    permit=permit_booking,
    shown=without_strangers,
)


class BookingRoutes(CatalogRoutes[Booking, BookingBody]):
    """Routes of bookings, which may be created only."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__(context, BOOKINGS)

    async def put(self, request: Request, name: Name, replace: Replace = True) -> Response:  # noqa: FBT002  # a parameter of the query
        """Create or replace a booking; administrators only."""
        body = self._body(request, name)
        return await self._store_item(principal_of(request.scope), body, name, replace=replace)


def booking_operations(context: ApiContext) -> list[ApiOperation]:
    """The operations on bookings."""
    return BookingRoutes(context).operations()

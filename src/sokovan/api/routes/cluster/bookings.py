"""Routes of bookings: readable by all users, changed by administrators.

A booking is accepted only if it can be met: what is on its agents ends before, or may be evicted by then. Users do
not see who else may use it; administrators see whom it evicts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.bookings import agent_uses, require_known_owners
from sokovan.api.access.lookup import kind_text, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.explanations import booked_session_view
from sokovan.api.mapping.fleet import booking_of, booking_view
from sokovan.api.mapping.times import time_text
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.api.routes.parameters import DryRun, Name, Replace
from sokovan.domain.cluster.booking import (
    BOOKINGS_MAX,
    Booking,
    BookingKind,
    agents_in_use,
    agents_with,
    earliest_start,
)
from sokovan.domain.errors import AlreadyExists, BookingConflict, Conflict, InvalidSpec
from sokovan.domain.owners.access import Action, ObjectKind, role_may
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.explain.booked_sessions import booked_agents, evicted_sessions, leaving_sessions
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.explanations import BookingEvictionsView
from sokovan.wire.api.fleet import BookingBody, BookingPage

# Sessions of each kind in a list of evictions.
EVICTIONS_SHOWN = 1_000


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
    everywhere = frozenset(str(one.info.agent_id) for one in state.agents)
    # Those that are free in any case come first, then those that others have to leave.
    for evicted_from in (None, everywhere):
        busy = agents_in_use(booking, await agent_uses(unit, evicted_from, besides=booking.name), known)
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
    """Routes of bookings, which may be created only, and of whom they evict."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__(context, BOOKINGS)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        listed, *others = super().operations()
        evictions = ApiOperation(
            method="GET", path="/api/v1/bookings/{name}/evictions", endpoint=self.evictions, tag="bookings",
            answer=BookingEvictionsView, fails=(404,),
        )  # fmt: skip
        # Before the one whose name may be any rest of a path.
        return [listed, evictions, *others]

    async def put(
        self,
        request: Request,
        name: Name,
        replace: Replace = True,  # noqa: FBT002  # a parameter of the query
        dry_run: DryRun = False,  # noqa: FBT002  # a parameter of the query
    ) -> Response:
        """Create or replace a booking; administrators only.

        With `dry_run` the answer is whom it would evict (BookingEvictionsView), and nothing is stored.
        """
        body, principal = self._body(request, name), principal_of(request.scope)
        if not dry_run:
            return await self._store_item(principal, body, name, replace=replace)
        require_role(principal, Action.CHANGE, ObjectKind.BOOKING)

        async def work(unit: UnitOfWork) -> BookingEvictionsView:
            before = await self._found(unit, name)
            if before is not None and not replace:
                raise AlreadyExists(what=kind_text(ObjectKind.BOOKING), name=name)
            booking = await with_agents(unit, booking_of(body, before))
            await permit_booking(unit, principal, booking, before, dry_run=True)
            return await _evictions_view(unit, booking, evicted=False)

        return json_response(await self._store.read(work))

    async def evictions(self, request: Request, name: Name) -> Response:
        """Show the sessions that leave for a booking, and those that did; administrators only."""
        principal = principal_of(request.scope)
        require_role(principal, Action.CHANGE, ObjectKind.BOOKING)

        async def work(unit: UnitOfWork) -> BookingEvictionsView:
            return await _evictions_view(unit, await self._seen(unit, principal, name), evicted=True)

        return json_response(await self._store.read(work))


async def _evictions_view(unit: UnitOfWork, booking: Booking, *, evicted: bool) -> BookingEvictionsView:
    agents = booked_agents(booking, await topology_state(unit))
    planned = await leaving_sessions(unit, booking, frozenset(agents))
    done = await evicted_sessions(unit, booking) if evicted else []
    return BookingEvictionsView(
        booking=booking.name,
        agents=list(agents),
        planned=[booked_session_view(one) for one in planned[:EVICTIONS_SHOWN]],
        evicted=[booked_session_view(one) for one in done[-EVICTIONS_SHOWN:]],
    )


def booking_operations(context: ApiContext) -> list[ApiOperation]:
    """The operations on bookings."""
    return BookingRoutes(context).operations()

"""Routes of bookings: readable by all users, changed by administrators.

A booking is accepted only if it can be met: what is on its agents ends before, or may be evicted by then. Users do
not see who else may use it; administrators see whom it evicts.
"""

from __future__ import annotations

import dataclasses

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.bookings import permit_booking, with_agents
from sokovan.api.access.lookup import kind_text, require_role
from sokovan.api.context import ApiContext
from sokovan.api.mapping.explanations import booked_session_view
from sokovan.api.mapping.fleet import booking_of, booking_view
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.api.routes.parameters import DryRun, Name, Replace
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.errors import AlreadyExists
from sokovan.domain.owners.access import Action, ObjectKind, role_may
from sokovan.orchestrator.sessions.explain.departures import booked_agents, evicted_sessions, leaving_sessions
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.explanations import BookingEvictionsView
from sokovan.wire.api.fleet import BookingBody, BookingPage

# Sessions of each kind in a list of evictions.
EVICTIONS_SHOWN = 1_000


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
        """Show the sessions that leave for a booking, and those that did.

        Administrators only.
        """
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

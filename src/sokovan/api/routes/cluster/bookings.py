"""Routes of bookings: readable by all users, changed by administrators."""

from __future__ import annotations

from sokovan.api.access.bookings import permit_booking
from sokovan.api.context import ApiContext
from sokovan.api.mapping.fleet import booking_of, booking_view
from sokovan.api.operations import ApiOperation
from sokovan.api.routes.catalog import CatalogRoutes, Resource
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.owners.access import ObjectKind
from sokovan.wire.api.fleet import BookingBody, BookingPage

BOOKINGS = Resource(
    path="bookings",
    kind=ObjectKind.BOOKING,
    item=Booking,
    body=BookingBody,
    page=BookingPage,
    view=booking_view,
    build=booking_of,
    permit=permit_booking,
)


def booking_operations(context: ApiContext) -> list[ApiOperation]:
    """The operations on bookings."""
    return CatalogRoutes(context, BOOKINGS).operations()

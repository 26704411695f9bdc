"""Verifies evictions for bookings at their commit, instead of those of a taker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.catalog import item_of
from sokovan.adapters.sql.repositories.catalog_locks import lock_to_rely_on
from sokovan.adapters.sql.schema.tables import BOOKINGS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.scheduling.plan import Eviction

# Bookings by name.
Bookings: TypeAlias = Mapping[str, Booking]


async def lock_bookings(transaction: Transaction) -> Bookings:
    """The bookings by name, as they stay until the commit."""
    await lock_to_rely_on(transaction, BOOKINGS)
    rows = await transaction.fetch(sa.select(BOOKINGS.c.name, BOOKINGS.c.body))
    return {row.name: item_of(Booking, row.body) for row in rows}


def booking_problem(bookings: Bookings, evictions: Sequence[Eviction], now_ms: int) -> str:
    """Why a session need not leave for a booking any more; empty if it has to."""
    first = evictions[0]
    booking = bookings.get(first.for_booking)
    if booking is None or booking.to_ms <= now_ms:
        return f"booking {first.for_booking} was removed, or has ended"
    if now_ms + (first.notice_ms or 0) + BOOKING_LEAD_MS < booking.from_ms:
        return f"booking {booking.name} begins later now"
    if booking.hypernode is None and not any(one.agent_id in booking.agents for one in evictions):
        return f"booking {booking.name} has other agents now"
    return ""

"""Verifies takers: the sessions and bookings that others were evicted for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.catalog import item_of
from sokovan.adapters.sql.repositories.sessions.session_rows import SessionRow
from sokovan.adapters.sql.schema.tables import BOOKINGS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import SessionId
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.sessions import Taker


def taker_sessions(takers: Mapping[SessionId, Taker]) -> dict[SessionId, SessionRecord]:
    """The takers that are sessions, by id."""
    return {one.session_id: one for one in takers.values() if isinstance(one, SessionRecord)}


async def with_changed_takers(
    transaction: Transaction, locked: Mapping[str, SessionRow], takers: Mapping[SessionId, Taker]
) -> set[SessionId]:
    """The sessions whose taker is not as it was read.

    The takers among the `locked` sessions, and the bookings, stay as they are until the commit.
    """
    names = sorted({one.name for one in takers.values() if isinstance(one, Booking)})
    bookings = await _lock_bookings(transaction, names) if names else {}

    def has_changed(taker: Taker) -> bool:
        if isinstance(taker, Booking):
            return bookings.get(taker.name) != taker
        now = locked.get(taker.session_id)
        return now is None or now.version != taker.version

    return {session_id for session_id, taker in takers.items() if has_changed(taker)}


async def _lock_bookings(transaction: Transaction, names: Collection[str]) -> dict[str, Booking]:
    # Their rows, and not the table as for allocations: a removal takes no lock of it.
    wanted = BOOKINGS.c.name.in_(sa.select(ids_table(transaction.postgresql).c.id))
    statement = sa.select(BOOKINGS.c.name, BOOKINGS.c.body).where(wanted).order_by(BOOKINGS.c.name)
    rows = await transaction.fetch(statement.with_for_update(read=True), bound_ids(transaction, list(names)))
    return {row.name: item_of(Booking, row.body) for row in rows}

"""Change tracking: rows carry the stamp of the transaction that last wrote them.

Takers, which others were evicted for, are compared with what was read of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.catalog import item_of
from sokovan.adapters.sql.repositories.sessions.session_rows import ON_AGENT, SessionRow
from sokovan.adapters.sql.schema.tables import (
    AGENTS,
    BOOKINGS,
    CATALOG_MARKS,
    COMMITS,
    KERNELS,
    OWNER_USAGE,
    PAST_USAGE,
    SESSIONS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.sessions import Taker


@cache
def settled_stamp(postgresql: bool) -> sa.ColumnElement[int]:  # noqa: FBT001  # a key of the cache
    """The lowest stamp whose transaction may still be in progress."""
    if postgresql:
        oldest = sa.func.pg_snapshot_xmin(sa.func.pg_current_snapshot())
        return sa.cast(sa.cast(oldest, sa.Text), sa.BigInteger)
    commits = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
    last = sa.select(commits.c.seq).where(commits.c.name == COMMITS.name).scalar_subquery()
    return sa.func.coalesce(last, 0) + 1


@cache
def progress(postgresql: bool) -> sa.Select[tuple[int, int]]:  # noqa: FBT001  # a key of the cache
    """The settled stamp, and the latest stamp of all tables that snapshots read."""
    # Reads the end of each index, independently of the planner's row estimates.
    ends = [
        sa.func.coalesce(sa.select(sa.func.max(table.c.stamp)).scalar_subquery(), 0)
        for table in (SESSIONS, AGENTS, OWNER_USAGE, PAST_USAGE, CATALOG_MARKS)
    ]
    # The largest of several values is max() in SQLite and greatest() in PostgreSQL.
    latest = sa.func.greatest(*ends) if postgresql else sa.func.max(*ends)
    return sa.select(settled_stamp(postgresql).label("settled"), latest.label("latest"))


async def changed_sessions(transaction: Transaction, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
    """The sessions written since a stamp, with their versions, and the next stamp."""
    row = await transaction.first(_settled(transaction.postgresql))
    if row is None:
        raise LookupError("a query without a table returns one row")
    # On SQLite the settled stamp is past the last commit: no write since then is invisible.
    if since is None or (not transaction.postgresql and since >= row.settled):
        return row.settled, {}
    found = await transaction.fetch(_written(), {"since": since})
    return row.settled, {SessionId(one.session_id): one.version for one in found}


async def users_of(transaction: Transaction, session_ids: Sequence[SessionId]) -> dict[SessionId, str]:
    """The users of sessions, the oldest session first."""
    found = await transaction.fetch(_users(transaction.postgresql), bound_ids(transaction, session_ids))
    return {SessionId(one.session_id): one.user for one in found}


async def waiting_users(transaction: Transaction) -> dict[SessionId, str]:
    """The users of sessions that are PENDING, the oldest session first."""
    return {SessionId(one.session_id): one.user for one in await transaction.fetch(_WAITING)}


async def ended_holding(transaction: Transaction) -> list[SessionId]:
    """The ended sessions whose kernels still hold slots."""
    return [SessionId(one.session_id) for one in await transaction.fetch(_HOLDING) if one.status in _ENDED]


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


_WAITING = (
    sa.select(SESSIONS.c.session_id, SESSIONS.c.user)
    .where(SESSIONS.c.status == SessionStatus.PENDING.value)
    .order_by(SESSIONS.c.place)
)
# Reads the index of kernels that are on an agent. With the status in the condition SQLite would read every session that
# has ended.
_HOLDING = (
    sa.select(SESSIONS.c.session_id, SESSIONS.c.status)
    .where(SESSIONS.c.session_id.in_(sa.select(KERNELS.c.session_id).where(ON_AGENT, KERNELS.c.agent_id >= "")))
    .order_by(SESSIONS.c.session_id)
)
_ENDED = frozenset(status.value for status in SESSION.terminal)


@cache
def _users(postgresql: bool) -> sa.Select[tuple[str, str]]:  # noqa: FBT001  # a key of the cache
    wanted = SESSIONS.c.session_id.in_(sa.select(ids_table(postgresql).c.id))
    return sa.select(SESSIONS.c.session_id, SESSIONS.c.user).where(wanted).order_by(SESSIONS.c.place)


@cache
def _settled(postgresql: bool) -> sa.Select[tuple[int]]:  # noqa: FBT001  # a key of the cache
    return sa.select(settled_stamp(postgresql).label("settled"))


@cache
def _written() -> sa.Select[tuple[str, int]]:
    since = sa.bindparam("since", type_=sa.BigInteger())
    written = sa.select(SESSIONS.c.session_id, SESSIONS.c.version).where(SESSIONS.c.stamp >= since)
    return written.order_by(SESSIONS.c.stamp, SESSIONS.c.session_id)

"""What was written since a mark: each row has the mark of who wrote it last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import AGENTS, CATALOG_MARKS, COMMITS, OWNER_USAGE, SESSIONS
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.ids import SessionId


@cache
def settled_mark(postgresql: bool) -> sa.ColumnElement[int]:  # noqa: FBT001  # a key of the cache
    """The first mark whose transaction may still be under way, or is yet to come."""
    if postgresql:
        oldest = sa.func.pg_snapshot_xmin(sa.func.pg_current_snapshot())
        return sa.cast(sa.cast(oldest, sa.Text), sa.BigInteger)
    commits = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
    last = sa.select(commits.c.seq).where(commits.c.name == COMMITS.name).scalar_subquery()
    return sa.func.coalesce(last, 0) + 1


@cache
def progress(postgresql: bool) -> sa.Select[tuple[int, int]]:  # noqa: FBT001  # a key of the cache
    """That mark, and the last one that anything has which snapshots are made of."""
    # The end of an index each, whatever the planner believes about how many rows are new.
    ends = [
        sa.func.coalesce(sa.select(sa.func.max(table.c.stamp)).scalar_subquery(), 0)
        for table in (SESSIONS, AGENTS, OWNER_USAGE, CATALOG_MARKS)
    ]
    # SQLite calls the largest of several values max, PostgreSQL greatest.
    latest = sa.func.greatest(*ends) if postgresql else sa.func.max(*ends)
    return sa.select(settled_mark(postgresql).label("settled"), latest.label("latest"))


async def changed_sessions(transaction: Transaction, since: int | None) -> tuple[int, Mapping[SessionId, int]]:
    """The sessions that were written since a mark, by version, and the next mark."""
    row = await transaction.first(_settled(transaction.postgresql))
    if row is None:
        raise LookupError("a query without a table gives one row")
    # On SQLite the mark is beyond the last commit: nobody has written since, or the rows say who.
    if since is None or (not transaction.postgresql and since >= row.settled):
        return row.settled, {}
    found = await transaction.fetch(_written(), {"since": since})
    return row.settled, {SessionId(one.session_id): one.version for one in found}


@cache
def _settled(postgresql: bool) -> sa.Select[tuple[int]]:  # noqa: FBT001  # a key of the cache
    return sa.select(settled_mark(postgresql).label("settled"))


@cache
def _written() -> sa.Select[tuple[str, int]]:
    since = sa.bindparam("since", type_=sa.BigInteger())
    written = sa.select(SESSIONS.c.session_id, SESSIONS.c.version).where(SESSIONS.c.stamp >= since)
    return written.order_by(SESSIONS.c.stamp, SESSIONS.c.session_id)

"""Verdicts: why sessions are pending, one row per session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects import sqlite

from sokovan.adapters.sql.rows import FLAG, TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import SESSIONS, VERDICTS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.session import SESSION
from sokovan.ports.repositories.verdicts import StoredVerdict

_IS_PENDING = SESSIONS.c.status == SESSION.initial.value


class SqlVerdicts:
    """Verdicts on SQL. Rows of sessions that are not pending are ignored."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def put(self, verdicts: Sequence[StoredVerdict]) -> None:
        """See the port."""
        last = {verdict.session_id: verdict for verdict in verdicts}
        if not last:
            return
        statement, rows = _put(self._transaction.postgresql)
        # In key order, so that concurrent writers lock rows in the same order.
        values = [(key, one.code, one.summary, one.document, one.held) for key, one in sorted(last.items())]
        await self._transaction.execute(statement, {**rows.bind(values), "the_now_ms": self._transaction.now_ms})

    async def get(self, session_id: SessionId) -> StoredVerdict | None:
        """See the port."""
        return (await self.of([session_id])).get(session_id)

    async def of(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredVerdict]:
        """See the port."""
        bound = bound_ids(self._transaction, session_ids)
        found = await self._transaction.fetch(_of(self._transaction.postgresql), bound)
        return {SessionId(row.session_id): _verdict(row) for row in found}

    async def remove(self, session_ids: Sequence[SessionId]) -> None:
        """See the port."""
        statement = _remove(self._transaction.postgresql)
        await self._transaction.execute(statement, bound_ids(self._transaction, session_ids))

    async def eligible_before(self, group: ScalingGroupName, until_ms: int, *, limit: int) -> Sequence[SessionId]:
        """See the port."""
        found = (
            sa.select(VERDICTS.c.session_id)
            .join(SESSIONS, SESSIONS.c.session_id == VERDICTS.c.session_id)
            .where(VERDICTS.c.eligible_ms <= until_ms, SESSIONS.c.scaling_group == group, _IS_PENDING)
            .order_by(VERDICTS.c.eligible_ms, VERDICTS.c.session_id)
            .limit(limit)
        )
        return [SessionId(row.session_id) for row in await self._transaction.fetch(found)]


def is_stale() -> sa.ColumnElement[bool]:
    """The condition for rows whose session is no longer pending."""
    return VERDICTS.c.session_id.not_in(sa.select(SESSIONS.c.session_id).where(_IS_PENDING))


def _verdict(row: sa.Row[Any]) -> StoredVerdict:
    return StoredVerdict(
        session_id=SessionId(row.session_id),
        code=row.code,
        summary=row.summary,
        document=row.document,
        first_ms=row.first_ms,
        last_ms=row.last_ms,
        times=row.times,
        held=row.eligible_ms is None,
        eligible_ms=row.eligible_ms,
    )


@cache
def _of(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    waiting = SESSIONS.c.session_id == VERDICTS.c.session_id
    # Not by the index of statuses: for the few sessions of a page, SQLite would read all pending ones.
    pending = SESSIONS.c.status.concat("") == SESSION.initial.value
    return sa.select(VERDICTS).join(SESSIONS, waiting).where(VERDICTS.c.session_id.in_(wanted), pending)


@cache
def _remove(postgresql: bool) -> sa.Delete:  # noqa: FBT001  # a key of the cache
    return sa.delete(VERDICTS).where(VERDICTS.c.session_id.in_(sa.select(ids_table(postgresql).c.id)))


@cache
def _put(postgresql: bool) -> tuple[Any, Rows]:  # noqa: FBT001  # a key of the cache
    given = dict.fromkeys(("id", "code", "summary", "document"), TEXT)
    rows = Rows("new_verdicts", {**given, "held": FLAG}, postgresql=postgresql)
    now, once = sa.bindparam("the_now_ms", type_=WHOLE), sa.literal(1, WHOLE)
    eligible = sa.case((rows.c.held, sa.null()), else_=now)
    chosen = (
        sa.select(SESSIONS.c.session_id, rows.c.code, rows.c.summary, rows.c.document, now, now, once, eligible)
        .join(rows.table, rows.c.id == SESSIONS.c.session_id)
        .where(_IS_PENDING)
        .order_by(SESSIONS.c.session_id)
    )
    columns = ["session_id", "code", "summary", "document", "first_ms", "last_ms", "times", "eligible_ms"]
    filled = (pg.insert if postgresql else sqlite.insert)(VERDICTS).from_select(columns, chosen)
    fresh = filled.excluded
    same = VERDICTS.c.code == fresh.code
    held = fresh.eligible_ms.is_(None)
    statement = filled.on_conflict_do_update(
        index_elements=["session_id"],
        set_={
            **{name: fresh[name] for name in ("code", "summary", "document", "last_ms")},
            "first_ms": sa.case((same, VERDICTS.c.first_ms), else_=fresh.first_ms),
            "times": sa.case((same, VERDICTS.c.times + 1), else_=fresh.times),
            "eligible_ms": sa.case(
                (held, sa.null()), else_=sa.func.coalesce(VERDICTS.c.eligible_ms, fresh.eligible_ms)
            ),
        },
    )
    return statement, rows

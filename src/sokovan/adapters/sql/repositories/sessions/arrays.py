"""Array repository on SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories.sessions.enqueueing import PLACES_PER_UNIT
from sokovan.adapters.sql.repositories.sessions.session_lists import (
    AFTER_ALL,
    AMBIGUOUS,
    conditions,
    has_label,
    without_invalid,
)
from sokovan.adapters.sql.repositories.sessions.session_names import array_is_live, lock_names, require_free_name
from sokovan.adapters.sql.schema.tables import ARRAYS, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import AccessKey, ArrayId, is_name
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import ENDED_BY_USER, ArrayCounts, ArrayRecord, SessionResult
from sokovan.ports.repositories.sessions import SessionFilter

_ENDED = [status.value for status in SESSION.terminal]
# The fields of a filter that all sessions of an array have in common.
_COMMON = ("scaling_group", "user", "group", "domain", "queue")


class SqlArrays:
    """Arrays on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, array: ArrayRecord) -> None:
        """See the port."""
        transaction, owner = self._transaction, array.owner
        await lock_names(transaction, [(owner.user, array.name)])
        await require_free_name(transaction, owner.user, array.name)
        values = {
            "array_id": array.array_id,
            "name": array.name,
            # The place of its first session.
            "place": transaction.number * PLACES_PER_UNIT + transaction.enqueued + 1,
            "user": owner.user,
            "group": owner.group,
            "domain": owner.domain,
            "access_key": owner.access_key,
            "scaling_group": array.scaling_group,
            "queue": array.queue,
            "indexes": array.indexes,
            "size": array.size,
            "at_once": array.at_once,
            "submitted_ms": transaction.now_ms,
            "unstored": array.unstored,
        }
        await transaction.execute(sa.insert(ARRAYS).values(values))

    async def unfinished(self, *, before_ms: int, limit: int) -> Sequence[ArrayRecord]:
        """See the port."""
        statement = sa.select(ARRAYS).where(ARRAYS.c.unstored > 0, ARRAYS.c.submitted_ms < before_ms)
        rows = await self._transaction.fetch(statement.order_by(ARRAYS.c.place).limit(limit))
        return [_record(row) for row in rows]

    async def take_unstored(self, array: ArrayRecord, count: int) -> bool:
        """See the port."""
        same = (ARRAYS.c.array_id == array.array_id, ARRAYS.c.unstored == array.unstored)
        change = sa.update(ARRAYS).where(*same).values(unstored=array.unstored - count)
        return bool(await self._transaction.execute(change))

    async def named(self, text: str, wanted: SessionFilter) -> Sequence[ArrayRecord]:
        """See the port."""
        known = without_invalid(wanted)
        if known is None or not is_name(text):
            return []
        key, name, end = ARRAYS.c.array_id, ARRAYS.c.name, text + AFTER_ALL
        prefix = sa.or_(sa.and_(key >= text, key < end), sa.and_(name >= text, name < end))
        for where, limit in (
            ([key == text], 1),
            ([name == text, array_is_live()], AMBIGUOUS),
            ([name == text], 1),
            ([prefix, array_is_live()], AMBIGUOUS),
        ):
            statement = sa.select(ARRAYS).where(*where, *_common(known)).order_by(ARRAYS.c.place.desc()).limit(limit)
            if found := await self._transaction.fetch(statement):
                return [_record(row) for row in found]
        return []

    async def page(
        self, wanted: SessionFilter, *, limit: int, after: int | None = None, name: str = ""
    ) -> Sequence[ArrayRecord]:
        """See the port."""
        known = without_invalid(wanted)
        if known is None:
            return []
        statement = sa.select(ARRAYS).where(*_common(known)).order_by(ARRAYS.c.place.desc()).limit(limit)
        if known.statuses or known.labels or known.words:
            labels = [has_label(selector, self._transaction.postgresql) for selector in known.labels]
            member = sa.select(sa.literal(1)).where(SESSIONS.c.array_id == ARRAYS.c.array_id)
            statement = statement.where(sa.exists(member.where(*conditions(known), *labels)))
        if name:
            statement = statement.where(ARRAYS.c.name == name)
        if after is not None:
            statement = statement.where(ARRAYS.c.place < after)
        return [_record(row) for row in await self._transaction.fetch(statement)]

    async def counts(self, ids: Collection[ArrayId]) -> Mapping[ArrayId, ArrayCounts]:
        """See the port."""
        chosen = sa.select(ids_table(self._transaction.postgresql).c.id)
        array_id, by_user = SESSIONS.c.array_id, SESSIONS.c.cause.in_(sorted(ENDED_BY_USER)).label("by_user")
        kinds = (
            sa.select(array_id, SESSIONS.c.status, SESSIONS.c.result, by_user)
            .where(array_id.in_(chosen), array_id.is_not(None))
            .subquery()
        )
        statement = sa.select(*kinds.c, sa.func.count().label("times")).group_by(*kinds.c)
        found: dict[ArrayId, list[Row[Any]]] = {one: [] for one in ids}
        for row in await self._transaction.fetch(statement, bound_ids(self._transaction, list(ids))):
            found[ArrayId(row.array_id)].append(row)
        unstored = await self._unstored(ids)
        return {one: _counts(rows, unstored.get(one, 0)) for one, rows in found.items()}

    async def outcomes(self, ids: Collection[str]) -> Mapping[ArrayId, bool]:
        """See the port."""
        chosen = sa.select(ids_table(self._transaction.postgresql).c.id)
        failed = _has_session(_ENDED, SESSIONS.c.result != SessionResult.SUCCESS.value)
        statement = sa.select(ARRAYS.c.array_id, failed.label("failed"), array_is_live().label("lives")).where(
            ARRAYS.c.array_id.in_(chosen)
        )
        rows = await self._transaction.fetch(statement, bound_ids(self._transaction, list(ids)))
        return {ArrayId(row.array_id): not row.failed for row in rows if row.failed or not row.lives}

    async def _unstored(self, ids: Collection[ArrayId]) -> Mapping[ArrayId, int]:
        """How many sessions are still to be stored, of arrays that have such."""
        chosen = sa.select(ids_table(self._transaction.postgresql).c.id)
        wanted = (ARRAYS.c.array_id.in_(chosen), ARRAYS.c.unstored > 0)
        statement = sa.select(ARRAYS.c.array_id, ARRAYS.c.unstored).where(*wanted)
        rows = await self._transaction.fetch(statement, bound_ids(self._transaction, list(ids)))
        return {ArrayId(row.array_id): row.unstored for row in rows}


def _has_session(statuses: Sequence[str], *where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Whether an array has a session of these statuses."""
    member = sa.select(sa.literal(1)).where(SESSIONS.c.array_id == ARRAYS.c.array_id, SESSIONS.c.status.in_(statuses))
    return sa.exists(member.where(*where))


def _common(wanted: SessionFilter) -> list[sa.ColumnElement[bool]]:
    return [ARRAYS.c[name] == text for name in _COMMON if (text := getattr(wanted, name))]


def _counts(rows: Sequence[Row[Any]], unstored: int) -> ArrayCounts:
    statuses: dict[SessionStatus, int] = {SessionStatus.PENDING: unstored} if unstored else {}
    results, cancelled = dict.fromkeys(SessionResult, 0), 0
    for row in rows:
        status = SessionStatus(row.status)
        statuses[status] = statuses.get(status, 0) + row.times
        if status in SESSION.terminal and row.result is not None:
            results[SessionResult(row.result)] += row.times
            if row.by_user and row.result == SessionResult.FAILURE.value:
                cancelled += row.times
    succeeded, failed = results[SessionResult.SUCCESS], results[SessionResult.FAILURE]
    return ArrayCounts(statuses, succeeded, failed - cancelled, cancelled)


def _record(row: Row[Any]) -> ArrayRecord:
    return ArrayRecord(
        array_id=ArrayId(row.array_id),
        name=row.name,
        owner=Owner(user=row.user, group=row.group, domain=row.domain, access_key=AccessKey(row.access_key)),
        scaling_group=row.scaling_group,
        queue=row.queue,
        indexes=row.indexes,
        size=row.size,
        at_once=row.at_once,
        submitted_ms=row.submitted_ms,
        place=row.place,
        unstored=row.unstored,
    )

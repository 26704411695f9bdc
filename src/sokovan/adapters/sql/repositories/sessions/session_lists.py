"""Session queries: filtered pages, and lookup by id, name or prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import read_records
from sokovan.adapters.sql.repositories.sessions.session_summaries import read_summaries
from sokovan.adapters.sql.schema.eviction_codec import NO_EVICTIONS
from sokovan.adapters.sql.schema.tables import NAMED, SESSIONS, VERDICTS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.arrays import is_session_name
from sokovan.domain.constraints.labels import LabelSelector
from sokovan.domain.ids import is_name
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord, SessionSummary
from sokovan.ports.repositories.sessions import (
    NO_REASON,
    OLDEST_FIRST,
    SEARCHED_MAX,
    SessionFilter,
    SessionOrder,
    SessionPosition,
    SessionProperty,
    SessionSort,
)

# Two matches are enough to report an ambiguous name.
AMBIGUOUS = 2
# Names are ASCII and compare byte by byte: every string with a prefix sorts before the prefix and this.
AFTER_ALL = "\x7f"
# A statement and its parameters.
_Selected: TypeAlias = tuple[sa.Select[Any], Mapping[str, Any] | None]
# The columns that lists are sorted by, but for the submission, which is the order of places.
_NAME_OR_ID = sa.case((SESSIONS.c.name == "", SESSIONS.c.session_id), else_=SESSIONS.c.name)
_VERDICT = sa.select(VERDICTS.c.code).where(VERDICTS.c.session_id == SESSIONS.c.session_id).scalar_subquery()
_WAITS_FOR = sa.case((SESSIONS.c.status == SessionStatus.PENDING.value, _VERDICT))
_SORTED: Mapping[SessionSort, sa.ColumnElement[Any]] = {
    SessionSort.NAME: _NAME_OR_ID,
    SessionSort.USER: SESSIONS.c.user,
    SessionSort.QUEUE: SESSIONS.c.queue,
    SessionSort.STATUS: SESSIONS.c.status,
    SessionSort.KERNELS: SESSIONS.c.size,
    SessionSort.GPUS: SESSIONS.c.devices,
    SessionSort.REASON: sa.func.coalesce(_WAITS_FOR, SESSIONS.c.cause, NO_REASON),
}
_NEWEST = SessionOrder(falls=True)
_SEARCHED = ("name", "session_id", "user", "queue")
_TEXT_FIELDS = ("scaling_group", "user", "group", "domain", "queue", "name", "array_id", "session_type")


class Cut(NamedTuple):
    """The part of a list that is read: how much, after which position, in which order."""

    limit: int
    after: SessionPosition | None = None
    order: SessionOrder = OLDEST_FIRST


async def page(transaction: Transaction, wanted: SessionFilter, cut: Cut) -> list[SessionRecord]:
    """A page of sessions in the order of submission, or newest first."""
    selected = _selected(transaction, wanted, cut)
    return [] if selected is None else await read_records(transaction, *selected)


async def summaries(
    transaction: Transaction, wanted: SessionFilter, cut: Cut, *, kernels_max: int
) -> list[SessionSummary]:
    """Like `page`, with what lists show of the sessions."""
    return await _summaries(transaction, _selected(transaction, wanted, cut), kernels_max)


async def _summaries(transaction: Transaction, selected: _Selected | None, kernels_max: int) -> list[SessionSummary]:
    if selected is None:
        return []
    statement, parameters = selected
    ids = await transaction.fetch(statement.with_only_columns(SESSIONS.c.session_id), parameters)
    return await read_summaries(transaction, [row.session_id for row in ids], kernels_max=kernels_max)


async def named(
    transaction: Transaction, text: str, wanted: SessionFilter, *, kernels_max: int
) -> list[SessionSummary]:
    """The sessions that an id, name or prefix matches. See the port."""
    if not is_session_name(text):
        return []
    has_name = [SESSIONS.c.name == text, NAMED]
    is_live = SESSIONS.c.ended_ms.is_(None)
    matches: list[tuple[list[sa.ColumnElement[bool]], int]] = [
        ([SESSIONS.c.session_id == text], 1),
        # A name is unique among the live sessions of one user, but not across users.
        ([*has_name, is_live], AMBIGUOUS),
        (has_name, 1),
        ([SESSIONS.c.session_id.in_(_with_prefix(text))], AMBIGUOUS),
    ]
    for where, limit in matches:
        selected = _selected(transaction, wanted, Cut(limit, order=_NEWEST), where)
        if found := await _summaries(transaction, selected, kernels_max):
            return found
    return []


def _with_prefix(text: str) -> sa.CompoundSelect[Any]:
    """Ids of live sessions whose id or name has this prefix, each from its own index.

    Names in arrays are written in full: their common prefix is the array's name.
    """
    is_live, end = SESSIONS.c.ended_ms.is_(None), text + AFTER_ALL
    key, name = SESSIONS.c.session_id, SESSIONS.c.name
    return sa.union(
        sa.select(key).where(key >= text, key < end, is_live).correlate(None),
        sa.select(key).where(name >= text, name < end, NAMED, is_live, SESSIONS.c.array_id.is_(None)).correlate(None),
    )


def _selected(
    transaction: Transaction, wanted: SessionFilter, cut: Cut, where: Sequence[sa.ColumnElement[bool]] = ()
) -> _Selected | None:
    """Selects the sessions of a cut of a list; None if no session can match the filter."""
    known = without_invalid(wanted)
    if known is None:
        return None
    if known.ids and not where and cut.after is None and known == SessionFilter(ids=known.ids):
        bound = {**bound_ids(transaction, list(known.ids)), "the_limit": cut.limit}
        return _by_ids(transaction.postgresql, cut.order), bound
    beyond = [] if cut.after is None else [_is_after(cut.after, cut.order)]
    labels = [has_label(selector, transaction.postgresql) for selector in known.labels]
    statement = sa.select(SESSIONS).where(*where, *beyond, *conditions(known), *labels)
    statement = statement.order_by(*_ordered(cut.order)).limit(cut.limit)
    if not known.ids:
        return statement, None
    chosen = SESSIONS.c.session_id.in_(sa.select(ids_table(transaction.postgresql).c.id))
    return statement.where(chosen), bound_ids(transaction, list(known.ids))


@cache
def _by_ids(postgresql: bool, order: SessionOrder) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects sessions by id; built once, because building it costs more than running it."""
    chosen = SESSIONS.c.session_id.in_(sa.select(ids_table(postgresql).c.id))
    some = sa.select(SESSIONS).where(chosen).order_by(*_ordered(order))
    return some.limit(sa.bindparam("the_limit", type_=sa.BigInteger()))


def _ordered(order: SessionOrder) -> list[sa.ColumnElement[Any]]:
    """The columns that a list is ordered by."""
    place = SESSIONS.c.place
    if order.by is SessionSort.SUBMITTED:
        return [place.desc() if order.falls else place]
    value = _SORTED[order.by]
    return [value.desc() if order.falls else value, place.desc()]


def _is_after(position: SessionPosition, order: SessionOrder) -> sa.ColumnElement[bool]:
    """Whether a session comes after a position of an ordered list."""
    place, older = SESSIONS.c.place, SESSIONS.c.place < position.place
    if order.by is SessionSort.SUBMITTED:
        return older if order.falls else place > position.place
    column, value = _SORTED[order.by], position.value
    beyond = column < value if order.falls else column > value
    # The first condition alone bounds the part of an index that is read.
    return sa.and_(column <= value if order.falls else column >= value, sa.or_(beyond, older))


def without_invalid(wanted: SessionFilter) -> SessionFilter | None:
    """The filter without invalid ids; None if no session can match it.

    Invalid names are not queried: PostgreSQL rejects some strings.
    """
    if any(
        (text := getattr(wanted, name)) and not is_session_name(text)
        for name in (*_TEXT_FIELDS, "reason", "evicted_for")
    ):
        return None
    if not all(word.isascii() and word.isprintable() for word in wanted.words):
        return None
    ids = [one for one in wanted.ids if is_name(one)]
    return None if wanted.ids and not ids else replace(wanted, ids=ids)


def has_label(selector: LabelSelector, postgresql: bool) -> sa.ColumnElement[bool]:  # noqa: FBT001  # the dialect
    """Compares a label in the stored spec; specs from before labels have none."""
    if postgresql:
        value = sa.func.json_extract_path_text(sa.cast(SESSIONS.c.body, sa.JSON), "labels", selector.name)
    else:
        value = sa.func.json_extract(SESSIONS.c.body, f'$.labels."{selector.name}"')
    return value.is_not(None) if selector.value is None else value == selector.value


def conditions(wanted: SessionFilter) -> list[sa.ColumnElement[bool]]:
    """The conditions of a filter on rows of sessions, without ids and labels."""
    equal = [SESSIONS.c[name] == text for name in _TEXT_FIELDS if (text := getattr(wanted, name))]
    if wanted.name:
        equal.append(NAMED)  # lets the database use the partial index on names
    if wanted.outside_arrays:
        equal.append(SESSIONS.c.array_id.is_(None))
    if wanted.since_ms is not None:
        equal.append(sa.or_(SESSIONS.c.ended_ms.is_(None), SESSIONS.c.ended_ms >= wanted.since_ms))
    if wanted.until_ms is not None:
        equal.append(SESSIONS.c.submitted_ms < wanted.until_ms)
    if wanted.reason:
        # Only sessions that wait have a verdict.
        waiting = sa.select(VERDICTS.c.session_id).where(VERDICTS.c.code == wanted.reason).correlate(None)
        equal.append(SESSIONS.c.session_id.in_(waiting))
    if wanted.evicted_for:
        receipts = SESSIONS.c.evictions
        equal += [receipts != NO_EVICTIONS, receipts.contains(f'"for_booking":"{wanted.evicted_for}"', autoescape=True)]
    if wanted.words:
        equal += [_is_recent(), *(_has_word(word) for word in wanted.words)]
    if wanted.statuses:
        equal.append(SESSIONS.c.status.in_([status.value for status in wanted.statuses]))
    return equal


def _has_word(word: str) -> sa.ColumnElement[bool]:
    """Whether a word is part of what a session is known by; its own % and _ are no patterns."""
    return sa.or_(*(sa.func.lower(SESSIONS.c[name]).contains(word.lower(), autoescape=True) for name in _SEARCHED))


def _is_recent() -> sa.ColumnElement[bool]:
    """Whether a session is among the newest, by the index of places."""
    every = SESSIONS.alias("every")
    last = sa.select(every.c.place).order_by(every.c.place.desc()).offset(SEARCHED_MAX).limit(1)
    return SESSIONS.c.place > sa.func.coalesce(last.scalar_subquery(), -1)


# By the index of the names of live sessions: it has no session that has ended.
_PENDING = (
    sa.select(SESSIONS.c.session_id)
    .where(
        SESSIONS.c.user == sa.bindparam("of", type_=sa.Text),
        NAMED,
        SESSIONS.c.ended_ms.is_(None),
        SESSIONS.c.status == SessionStatus.PENDING.value,
    )
    .limit(sa.bindparam("most", type_=sa.BigInteger))
)
_COUNT_PENDING = sa.select(sa.func.count().label("sessions")).select_from(_PENDING.subquery())


async def pending_count(transaction: Transaction, user: str, *, most: int) -> int:
    """How many named sessions of a user are PENDING, at most `most`."""
    [row] = await transaction.fetch(_COUNT_PENDING, {"of": user, "most": most})
    return int(row.sessions)


async def counts(transaction: Transaction, wanted: SessionFilter, by: SessionProperty, *, most: int) -> dict[str, int]:
    """How many sessions have each value of a property. See the port."""
    known = without_invalid(wanted)
    if known is None:
        return {}
    value, count = SESSIONS.c[by.value].label("value"), sa.func.count().label("sessions")
    labels = [has_label(selector, transaction.postgresql) for selector in known.labels]
    statement = sa.select(value, count).where(*conditions(known), *labels).group_by(SESSIONS.c[by.value])
    bound = None
    if known.ids:
        chosen = SESSIONS.c.session_id.in_(sa.select(ids_table(transaction.postgresql).c.id))
        statement, bound = statement.where(chosen), bound_ids(transaction, list(known.ids))
    rows = await transaction.fetch(statement.order_by(count.desc(), value).limit(most), bound)
    return {row.value: int(row.sessions) for row in rows}

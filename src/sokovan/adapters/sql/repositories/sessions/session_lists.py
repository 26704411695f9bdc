"""Finding sessions: by what they have in common, and by what people call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import read_records
from sokovan.adapters.sql.schema.tables import NAMED, SESSIONS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.ids import is_name
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.sessions import SessionFilter

# Two that fit are enough to doubt which one is meant.
DOUBT = 2
# Names are ASCII and compare byte by byte: whatever begins with a text lies before the text and this.
_AFTER_ALL = "\x7f"
_TEXT_FIELDS = ("scaling_group", "user", "group", "domain", "queue", "name")


async def page(
    transaction: Transaction, wanted: SessionFilter, *, limit: int, after: int | None, newest: bool
) -> list[SessionRecord]:
    """A page of sessions in the order of their places, or against it."""
    place = SESSIONS.c.place
    where = [] if after is None else [place < after if newest else place > after]
    order = place.desc() if newest else place
    return await _found(transaction, wanted, where, order=[order], limit=limit)


async def named(transaction: Transaction, text: str, wanted: SessionFilter) -> list[SessionRecord]:
    """The sessions that a text may mean. See the port."""
    if not is_name(text):
        return []
    newest_first = [SESSIONS.c.place.desc()]
    called = [SESSIONS.c.name == text, NAMED]
    goes_on = SESSIONS.c.ended_ms.is_(None)
    ways: list[tuple[list[sa.ColumnElement[bool]], int]] = [
        ([SESSIONS.c.session_id == text], 1),
        # One user has a name only once among the sessions that go on; two users may have it both.
        ([*called, goes_on], DOUBT),
        (called, 1),
        ([SESSIONS.c.session_id.in_(_beginning(text))], DOUBT),
    ]
    for where, limit in ways:
        found = await _found(transaction, wanted, where, order=newest_first, limit=limit)
        if found:
            return found
    return []


def _beginning(text: str) -> sa.CompoundSelect[Any]:
    """The sessions that go on whose id or name begins with a text, each by its own index."""
    goes_on, end = SESSIONS.c.ended_ms.is_(None), text + _AFTER_ALL
    key, name = SESSIONS.c.session_id, SESSIONS.c.name
    return sa.union(
        sa.select(key).where(key >= text, key < end, goes_on).correlate(None),
        sa.select(key).where(name >= text, name < end, NAMED, goes_on).correlate(None),
    )


async def _found(
    transaction: Transaction,
    wanted: SessionFilter,
    where: Sequence[sa.ColumnElement[bool]],
    *,
    order: Sequence[sa.ColumnElement[Any]],
    limit: int,
) -> list[SessionRecord]:
    known = _that_can_be(wanted)
    if known is None:
        return []
    statement = sa.select(SESSIONS).where(*where, *_conditions(known)).order_by(*order).limit(limit)
    parameters: Mapping[str, Any] | None = None
    if known.ids:
        statement = statement.where(SESSIONS.c.session_id.in_(sa.select(ids_table(transaction.postgresql).c.id)))
        parameters = bound_ids(transaction, list(known.ids))
    return await read_records(transaction, statement, parameters)


def _that_can_be(wanted: SessionFilter) -> SessionFilter | None:
    """The filter without ids that no session can have; None if nothing can fit it.

    What is no name is not asked for: PostgreSQL would not even take every text.
    """
    if any((text := getattr(wanted, name)) and not is_name(text) for name in _TEXT_FIELDS):
        return None
    ids = [one for one in wanted.ids if is_name(one)]
    return None if wanted.ids and not ids else replace(wanted, ids=ids)


def _conditions(wanted: SessionFilter) -> list[sa.ColumnElement[bool]]:
    equal = [SESSIONS.c[name] == text for name in _TEXT_FIELDS if (text := getattr(wanted, name))]
    if wanted.name:
        equal.append(NAMED)  # so that the index of names serves
    if wanted.statuses:
        equal.append(SESSIONS.c.status.in_([status.value for status in wanted.statuses]))
    return equal

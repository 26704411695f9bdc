"""Object histories: one row per move, and a counter for repeated reasons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows, common_columns
from sokovan.adapters.sql.schema.tables import HISTORIES
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.lifecycle.eviction import TAKER_NOTES
from sokovan.domain.lifecycle.transition_table import Cause, TransitionTable
from sokovan.domain.records import Change, HistoryEntry

# The trigger of a row that records why an object did not move.
NOTED = "noted"


class HistoryRow(NamedTuple):
    """One row of a history: a move from one status to another."""

    object_id: str
    sequence: int
    before: str | None
    after: str
    trigger: str


def first_row(object_id: str, table: TransitionTable[Any, Any]) -> HistoryRow:
    """The row of a new object."""
    return HistoryRow(object_id, 1, None, table.initial.value, "submitted")


async def append(transaction: Transaction, kind: str, entries: Sequence[HistoryRow], change: Change) -> None:
    """Insert history rows, before the objects that reference them are updated."""
    if entries:
        common = common_columns(entries, HistoryRow._fields, postgresql=transaction.postgresql)
        statement, rows = _append(kind, transaction.postgresql, common)
        await transaction.execute(statement, {**rows.bind(entries), **_change_values(transaction, change)})


async def append_each(transaction: Transaction, kind: str, entries: Sequence[tuple[HistoryRow, Change]]) -> None:
    """Like `append`, with a change of its own for each row."""
    statement, rows = _append(kind, transaction.postgresql, frozenset())
    values = [{**rows.bind([entry]), **_change_values(transaction, change)} for entry, change in entries]
    if values:
        await transaction.execute(statement, values)


async def note(
    transaction: Transaction,
    machine: TransitionTable[Any, Any],
    table: sa.Table,
    *,
    ids: Sequence[str],
    change: Change,
) -> None:
    """Record why these objects did not move; a repeated reason is only counted.

    Receipts of evictions are about different victims, so that each is kept. Objects that
    have ended meanwhile are skipped.
    """
    key = next(iter(table.primary_key.columns))
    history = HISTORIES[machine.name]
    wanted = ids_table(transaction.postgresql)
    found = await transaction.fetch(
        sa.select(key.label("id"), table.c.history_sequence, table.c.status, history.c.code, history.c.trigger)
        .join(history, sa.and_(history.c.object_id == key, history.c.sequence == table.c.history_sequence))
        .where(key.in_(sa.select(wanted.c.id)), table.c.status.not_in([state.value for state in machine.terminal]))
        .order_by(key)
        .with_for_update(of=table),
        bound_ids(transaction, ids),
    )
    counted = () if change.code in TAKER_NOTES else found
    again = [row for row in counted if row.trigger == NOTED and row.code == change.code]
    fresh = [row for row in found if row not in again]
    await _count(transaction, history, again, change)
    await append(
        transaction,
        machine.name,
        [HistoryRow(row.id, row.history_sequence + 1, row.status, row.status, NOTED) for row in fresh],
        change,
    )
    if fresh:
        advance = sa.update(table).values(history_sequence=table.c.history_sequence + 1)
        await transaction.execute(
            advance.where(key.in_(sa.select(wanted.c.id))), bound_ids(transaction, [row.id for row in fresh])
        )


async def read_history(transaction: Transaction, kind: str, object_id: str) -> list[HistoryEntry]:
    """The complete history of one object."""
    history = HISTORIES[kind]
    statement = sa.select(history).where(history.c.object_id == object_id).order_by(history.c.sequence)
    return [entry_of(row) for row in await transaction.fetch(statement)]


def entry_of(row: Row[Any]) -> HistoryEntry:
    """Convert a row to a HistoryEntry."""
    return HistoryEntry(
        sequence=row.sequence,
        before=row.before,
        after=row.after,
        trigger=row.trigger,
        change=Change(who=row.who, by=Cause(row.cause), code=row.code, detail=row.detail),
        at_ms=row.at_ms,
        last_ms=row.last_ms,
        times=row.times,
        lease=row.lease,
        epoch=row.epoch,
    )


async def _count(transaction: Transaction, history: sa.Table, rows: Sequence[Row[Any]], change: Change) -> None:
    if not rows:
        return
    wanted = Rows("again", {"id": TEXT, "sequence": WHOLE}, postgresql=transaction.postgresql)
    statement = (
        sa.update(history)
        .values(times=history.c.times + 1, last_ms=transaction.now_ms, detail=change.detail)
        .where(history.c.object_id == wanted.c.id, history.c.sequence == wanted.c.sequence)
    )
    await transaction.execute(statement, wanted.bind([(row.id, row.history_sequence) for row in rows]))


@cache
def _append(kind: str, postgresql: bool, common: frozenset[str]) -> tuple[sa.Insert, Rows]:  # noqa: FBT001  # a key of the cache
    history = HISTORIES[kind]
    rows = Rows(
        "lines",
        {"object_id": TEXT, "sequence": WHOLE, "before": TEXT, "after": TEXT, "trigger": TEXT},
        postgresql=postgresql,
        common=common,
    )
    previous = sa.case((rows.c.sequence > 1, rows.c.sequence - 1), else_=sa.null())
    columns: dict[str, Any] = {
        **{name: rows.c[name] for name in ("object_id", "sequence", "before", "after", "trigger")},
        "previous": previous,
        **{name: sa.bindparam(f"the_{name}", type_=TEXT) for name in ("who", "cause", "code", "detail", "lease")},
        **{name: sa.bindparam(f"the_{name}", type_=WHOLE) for name in ("at_ms", "last_ms", "times", "epoch")},
    }
    return sa.insert(history).from_select(list(columns), sa.select(*columns.values())), rows


def _change_values(transaction: Transaction, change: Change) -> dict[str, Any]:
    fence = transaction.fence
    return {
        "the_who": change.who,
        "the_cause": change.by.value,
        "the_code": change.code,
        "the_detail": change.detail,
        "the_at_ms": transaction.now_ms,
        "the_last_ms": transaction.now_ms,
        "the_times": 1,
        "the_lease": None if fence is None else fence.lease,
        "the_epoch": None if fence is None else fence.epoch,
    }

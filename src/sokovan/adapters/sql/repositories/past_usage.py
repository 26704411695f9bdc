"""Past usage of owners: brought up to date whenever their held slots change.

Part of the transaction that takes or frees the slots, so every attempt of a kernel is
counted exactly once. Two statements and a read per batch, however many kernels it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeEngine

from sokovan.adapters.sql.repositories.catalog import item_of
from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import PAST_USAGE, SCALING_GROUPS
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.owners.past_usage import (
    HALF_LIFE_DEFAULT_S,
    PastUsage,
    UsageChange,
    UsageKey,
    UsageScope,
    changed_amount,
)

_KEY = UsageKey._fields
_STATE = ("amount", "held", "at_ms")


async def updated_usage(
    transaction: Transaction, changes: Mapping[UsageKey, UsageChange]
) -> list[tuple[str | int, ...]]:
    """Lock rows and compute their new state."""
    half_lives, now_ms = await _half_lives(transaction, {key.scaling_group for key in changes}), transaction.now_ms
    found: list[tuple[str | int, ...]] = []
    for row in await _locked(transaction, sorted(changes)):
        past = _past_of(row)
        change = changes[past.key]
        half_life_ms = half_lives.get(past.key.scaling_group, HALF_LIFE_DEFAULT_S) * 1000
        amount = changed_amount(past, change, now_ms=now_ms, half_life_ms=half_life_ms)
        # A transaction that waited for the lock may be older than the row.
        found.append((*past.key, amount, past.held + change.held, max(past.at_ms, now_ms)))
    return found


async def read_usage(transaction: Transaction, *where: sa.ColumnElement[bool]) -> list[PastUsage]:
    """Rows of past usage as they are stored, by key."""
    statement = sa.select(PAST_USAGE).where(*where).order_by(*[PAST_USAGE.c[name] for name in _KEY])
    rows = await transaction.fetch(statement)
    return [_past_of(row) for row in rows]


def _past_of(row: Any) -> PastUsage:
    key = UsageKey(row.scaling_group, UsageScope(row.scope), row.name, row.slot)
    return PastUsage(key, amount=row.amount, held=row.held, at_ms=row.at_ms)


async def _half_lives(transaction: Transaction, groups: set[str]) -> dict[str, int]:
    rows = await transaction.fetch(_groups(transaction.postgresql), bound_ids(transaction, sorted(groups)))
    return {row.name: _half_life_of(row.body) for row in rows}


@lru_cache(maxsize=1_000)
def _half_life_of(body: str) -> int:
    return item_of(ScalingGroup, body).usage_half_life_s


@cache
def _groups(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    return sa.select(SCALING_GROUPS.c.name, SCALING_GROUPS.c.body).where(SCALING_GROUPS.c.name.in_(wanted))


async def _locked(transaction: Transaction, keys: Sequence[UsageKey]) -> Sequence[Any]:
    """Create missing rows and lock all of them, in key order."""
    upsert, table = _lock(transaction.postgresql)
    bound = {**table.bind(keys), "the_now_ms": transaction.now_ms, "the_stamp": transaction.stamp}
    return await transaction.fetch(upsert, bound)


@cache
def _lock(postgresql: bool) -> tuple[Any, Rows]:  # noqa: FBT001  # a key of the cache
    keys: dict[str, TypeEngine[Any]] = dict.fromkeys(_KEY, TEXT)
    rows = Rows("wanted", keys, postgresql=postgresql)
    columns = [rows.c[name] for name in _KEY]
    zero = sa.literal_column("0", WHOLE)
    now, stamp = (sa.bindparam(name, type_=WHOLE) for name in ("the_now_ms", "the_stamp"))
    # In key order, so that concurrent transactions lock owners in the same order. The WHERE keeps SQLite's parser from
    # reading ON CONFLICT as a join.
    ordered = (
        sa.select(*columns, zero.label("amount"), zero.label("held"), now, stamp)
        .where(sa.true())
        .order_by(*[sa.collate(column, "C") if postgresql else column for column in columns])
    )
    insert = (pg.insert if postgresql else sqlite.insert)(PAST_USAGE)
    filled = insert.from_select([*_KEY, *_STATE, "stamp"], ordered)
    statement = filled.on_conflict_do_update(
        index_elements=list(_KEY), set_={"stamp": filled.excluded.stamp}
    ).returning(*[PAST_USAGE.c[name] for name in (*_KEY, *_STATE)])
    return statement, rows


@cache
def write_usage(postgresql: bool) -> tuple[sa.Update, Rows]:  # noqa: FBT001  # a key of the cache
    """Writes the rows of `updated_usage`, except one with negative held slots."""
    columns: dict[str, TypeEngine[Any]] = {**dict.fromkeys(_KEY, TEXT), **dict.fromkeys(_STATE, WHOLE)}
    rows = Rows("written", columns, postgresql=postgresql)
    statement = (
        sa.update(PAST_USAGE)
        .values({name: rows.c[name] for name in _STATE})
        .where(*[PAST_USAGE.c[name] == rows.c[name] for name in _KEY], rows.c.held >= 0)
    )
    return statement, rows

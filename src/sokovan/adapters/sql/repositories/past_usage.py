"""Past usage of owners and devices.

That of owners is brought up to date whenever their held slots change, in the transaction
that takes or frees the slots, so every attempt of a kernel is counted exactly once. Two
statements and a read per batch, however many kernels it has.
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
from sokovan.adapters.sql.schema.tables import (
    HELD_DEVICES,
    HELD_SLOTS,
    KERNELS,
    PAST_USAGE,
    RESERVATIONS,
    SCALING_GROUPS,
    SESSIONS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.owners.past_usage import (
    HALF_LIFE_DEFAULT_S,
    PastUsage,
    UsageChange,
    UsageKey,
    UsageScope,
    changed_amount,
)
from sokovan.domain.records import DeviceHold, DeviceTimes, HeldDevice, KeptRoom

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


def held_device(row: Any) -> HeldDevice:
    """The device of a row, with its session."""
    return HeldDevice(
        agent_id=AgentId(row.agent_id),
        device_id=row.device_id,
        units=row.units,
        session_id=SessionId(row.session_id),
        name=row.name,
        queue=row.queue,
        user=row.user,
        domain=row.domain,
    )


async def read_device_times(
    transaction: Transaction, agents: Sequence[AgentId], *, from_ms: int, to_ms: int, most: int
) -> DeviceTimes:
    """See `Ledger.device_times`."""
    ids = bound_ids(transaction, agents)
    bound = {**ids, "from_ms": from_ms, "to_ms": to_ms, "most": most}
    rows = await transaction.fetch(_holds(transaction.postgresql), bound)
    kept = await transaction.fetch(_kept(transaction.postgresql), ids)
    return DeviceTimes(
        holds=[DeviceHold(held_device(row), row.held_ms, row.freed_ms) for row in rows],
        kept=[
            KeptRoom(
                agent_id=AgentId(row.agent_id),
                session_id=SessionId(row.session_id),
                name=row.name,
                user=row.user,
                domain=row.domain,
                kernels=row.kernels,
                from_ms=row.starts_ms,
            )
            for row in kept
        ],
    )


@cache
def _holds(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    held, of = HELD_DEVICES.c, SESSIONS.c
    # A kernel takes all of its slots at once, with its devices.
    began = (
        sa.select(sa.func.min(HELD_SLOTS.c.held_ms))
        .where(HELD_SLOTS.c.kernel_id == held.kernel_id, HELD_SLOTS.c.attempt == held.attempt)
        .scalar_subquery()
    )
    since, until = sa.bindparam("from_ms", type_=WHOLE), sa.bindparam("to_ms", type_=WHOLE)
    return (
        sa.select(
            held.agent_id, held.device_id, held.units, held.freed_ms, began.label("held_ms"),
            of.session_id, of.name, of.queue, of.user, of.domain,
        )
        .join(KERNELS, KERNELS.c.kernel_id == held.kernel_id)
        .join(SESSIONS, of.session_id == KERNELS.c.session_id)
        .where(held.agent_id.in_(sa.select(ids_table(postgresql).c.id)))
        .where(sa.or_(held.freed_ms.is_(None), held.freed_ms >= since), began < until)
        .order_by(held.agent_id, held.device_id, began, held.kernel_id)
        .limit(sa.bindparam("most", type_=WHOLE))
    )  # fmt: skip


@cache
def _kept(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    kept, of = RESERVATIONS.c, SESSIONS.c
    columns = (kept.agent_id, of.session_id, of.name, of.user, of.domain, kept.starts_ms)
    return (
        sa.select(*columns, sa.func.count().label("kernels"))
        .join(SESSIONS, of.session_id == kept.session_id)
        .where(kept.agent_id.in_(sa.select(ids_table(postgresql).c.id)))
        .group_by(*columns)
        .order_by(kept.agent_id, of.session_id)
    )

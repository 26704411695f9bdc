"""Removes sessions that ended long ago, with everything that belongs to them.

A session stays as long as a living session or array depends on it. Past usage is kept in
tables of its own, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import (
    ARRAY_DEPENDENCIES,
    ARRAYS,
    DEPENDENCIES,
    HELD_DEVICES,
    HELD_PORTS,
    HELD_SLOTS,
    KERNEL_HISTORY,
    KERNELS,
    REQUESTS,
    RESERVATIONS,
    SESSION_HISTORY,
    SESSIONS,
    VERDICTS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import SessionResult

# One unit of work removes at most so many; other writers wait for it.
SESSIONS_AT_ONCE = 200
KERNELS_AT_ONCE = 2_000
# A client that lost the answer repeats its request sooner than this: until then its key and session are kept.
_REPEATED_MS = 3_600_000

# The columns that name a session or a kernel, in the order that foreign keys require.
_BELONGING = (
    VERDICTS.c.session_id,
    DEPENDENCIES.c.session_id,
    DEPENDENCIES.c.depends_on,
    ARRAY_DEPENDENCIES.c.session_id,
    REQUESTS.c.session_id,
)
_OF_KERNELS = (
    HELD_SLOTS.c.kernel_id,
    HELD_DEVICES.c.kernel_id,
    HELD_PORTS.c.kernel_id,
    RESERVATIONS.c.kernel_id,
    KERNELS.c.kernel_id,
    KERNEL_HISTORY.c.object_id,
)
_OF_SESSIONS = (SESSIONS.c.session_id, SESSION_HISTORY.c.object_id)


async def remove_older(transaction: Transaction, before_ms: int) -> int:
    """Remove sessions that ended before a time, the oldest first; how many."""
    return await _remove(transaction, await transaction.fetch(_older(), {"before_ms": before_ms}))


async def remove_surplus(transaction: Transaction, user: str, most: int) -> int:
    """Remove the oldest ended sessions of a user with more than `most`; how many."""
    counted = sa.select(sa.func.count().label("sessions")).where(SESSIONS.c.user == user)
    [row] = await transaction.fetch(counted)
    surplus = row.sessions - most
    if surplus < 1:
        return 0
    settled = SESSIONS.c.ended_ms < transaction.now_ms - _REPEATED_MS
    chosen = _candidates().where(SESSIONS.c.user == user, settled).order_by(SESSIONS.c.place)
    return await _remove(transaction, await transaction.fetch(chosen.limit(min(surplus, SESSIONS_AT_ONCE))))


async def users_beyond(transaction: Transaction, most: int, *, limit: int) -> list[str]:
    """Users with more than `most` sessions."""
    crowded = sa.select(SESSIONS.c.user).group_by(SESSIONS.c.user).having(sa.func.count() > most)
    return [row.user for row in await transaction.fetch(crowded.order_by(SESSIONS.c.user).limit(limit))]


@cache
def _older() -> sa.Select[Any]:
    """The oldest sessions that ended before the parameter `before_ms`."""
    before = SESSIONS.c.ended_ms < sa.bindparam("before_ms")
    return _candidates().where(before, _unrequested()).order_by(SESSIONS.c.ended_ms).limit(SESSIONS_AT_ONCE)


@cache
def _candidates() -> sa.Select[Any]:
    """Ended sessions that nothing living refers to, with their numbers of kernels."""
    dependent, member, waiting, better = (SESSIONS.alias(name) for name in ("dependent", "member", "waiting", "better"))
    needed = (
        sa.select(DEPENDENCIES.c.session_id)
        .join(dependent, dependent.c.session_id == DEPENDENCIES.c.session_id)
        .where(DEPENDENCIES.c.depends_on == SESSIONS.c.session_id, dependent.c.ended_ms.is_(None))
    )
    # An array is judged as a whole: its result follows from all of its sessions.
    unfinished = sa.select(member.c.session_id).where(
        # By status, as the index of arrays has it: a large array is not read whole for each of its sessions.
        member.c.array_id == SESSIONS.c.array_id,
        member.c.status.in_([status.value for status in SessionStatus if status not in SESSION.terminal]),
    )
    # Of an array what failed is removed last, so that its result stays the same as long as it exists.
    success = SessionResult.SUCCESS.value
    outlived = sa.select(better.c.session_id).where(
        SESSIONS.c.result != success,
        better.c.array_id == SESSIONS.c.array_id,
        better.c.status.in_([status.value for status in SESSION.terminal]),
        better.c.result == success,
    )
    awaited = (
        sa.select(ARRAY_DEPENDENCIES.c.session_id)
        .join(waiting, waiting.c.session_id == ARRAY_DEPENDENCIES.c.session_id)
        .where(ARRAY_DEPENDENCIES.c.array_id == SESSIONS.c.array_id, waiting.c.ended_ms.is_(None))
    )
    terminal = [status.value for status in KERNEL.terminal]
    live = sa.select(KERNELS.c.kernel_id).where(
        KERNELS.c.session_id == SESSIONS.c.session_id, KERNELS.c.status.not_in(terminal)
    )
    kernels = sa.select(sa.func.count()).where(KERNELS.c.session_id == SESSIONS.c.session_id).scalar_subquery()
    return sa.select(SESSIONS.c.session_id, SESSIONS.c.array_id, kernels.label("kernels")).where(
        SESSIONS.c.ended_ms.is_not(None),
        *(~sa.exists(one.correlate(SESSIONS)) for one in (needed, unfinished, outlived, awaited, live)),
    )


def _unrequested() -> sa.ColumnElement[bool]:
    """Whether no idempotency key refers to a session: the same request would be stored again."""
    keys = sa.select(REQUESTS.c.key).where(REQUESTS.c.session_id == SESSIONS.c.session_id)
    return ~sa.exists(keys.correlate(SESSIONS))


async def _remove(transaction: Transaction, rows: Sequence[Any]) -> int:
    """Remove the first of these sessions, as many as one unit of work may."""
    kernels = 0
    chosen: list[Any] = []
    for row in await _still_removable(transaction, rows):
        kernels += row.kernels
        if chosen and kernels > KERNELS_AT_ONCE:
            break
        chosen.append(row)
    if not chosen:
        return 0
    sessions = [row.session_id for row in chosen]
    of_sessions = sa.select(KERNELS.c.kernel_id).where(KERNELS.c.session_id.in_(_ids(transaction)))
    found = [row.kernel_id for row in await transaction.fetch(of_sessions, bound_ids(transaction, sessions))]
    arrays = sorted({row.array_id for row in chosen if row.array_id is not None})
    for columns, ids in ((_BELONGING, sessions), (_OF_KERNELS, found), (_OF_SESSIONS, sessions)):
        for column in columns:
            await _delete(transaction, column, ids)
    await _remove_empty(transaction, arrays)
    return len(chosen)


async def _still_removable(transaction: Transaction, rows: Sequence[Any]) -> Sequence[Any]:
    """Those of these sessions that nothing living refers to, now that they are locked.

    A session that depends on one of them may have been stored since they were chosen. SQLite
    has one writer at a time.
    """
    if not transaction.postgresql or not rows:
        return rows
    given = bound_ids(transaction, [row.session_id for row in rows])
    named = SESSIONS.c.session_id.in_(_ids(transaction))
    locked = sa.select(SESSIONS.c.session_id).where(named).order_by(SESSIONS.c.session_id).with_for_update()
    await transaction.fetch(locked, given)
    kept = {row.session_id for row in await transaction.fetch(_candidates().where(named), given)}
    return [row for row in rows if row.session_id in kept]


async def _remove_empty(transaction: Transaction, arrays: Sequence[str]) -> None:
    """Remove those of these arrays that have no session left."""
    if not arrays:
        return
    member = sa.select(SESSIONS.c.session_id).where(SESSIONS.c.array_id == ARRAYS.c.array_id)
    empty = sa.select(ARRAYS.c.array_id).where(
        ARRAYS.c.array_id.in_(_ids(transaction)), ARRAYS.c.unstored == 0, ~sa.exists(member.correlate(ARRAYS))
    )
    found = [row.array_id for row in await transaction.fetch(empty, bound_ids(transaction, arrays))]
    for column in (ARRAY_DEPENDENCIES.c.array_id, ARRAYS.c.array_id):
        await _delete(transaction, column, found)


async def _delete(transaction: Transaction, column: sa.Column[Any], ids: Sequence[str]) -> None:
    if ids:
        rows = sa.delete(column.table).where(column.in_(_ids(transaction)))
        await transaction.execute(rows, bound_ids(transaction, ids))


def _ids(transaction: Transaction) -> sa.Select[Any]:
    return sa.select(ids_table(transaction.postgresql).c.id)

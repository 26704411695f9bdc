"""Retention: removes rows that are no longer needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.verdicts import is_stale
from sokovan.adapters.sql.schema.tables import (
    COMMITS,
    GROUPS,
    PAST_USAGE,
    QUEUES,
    REQUESTS,
    SCALING_GROUPS,
    USERS,
    VERDICTS,
)
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.ports.storage import REQUESTS_KEPT_S, USAGE_KEPT_S

# Rows removed per unit of work; other writers wait for it, so it must stay short.
PRUNED_AT_ONCE = 2_000

_OWNERS = {UsageScope.USER: USERS, UsageScope.GROUP: GROUPS, UsageScope.QUEUE: QUEUES}

Work: TypeAlias = Callable[[SqlUnitOfWork], Awaitable[int]]


async def prune(run: Callable[[Work], Awaitable[int]], *, older_than_s: float) -> int:
    """Remove expired rows in several units of work; returns their number."""
    old: list[tuple[sa.Table, Callable[[int], sa.ColumnElement[bool]]]] = [
        (COMMITS, lambda now_ms: COMMITS.c.at_ms < now_ms - int(older_than_s * 1000)),
        (REQUESTS, lambda now_ms: REQUESTS.c.at_ms < now_ms - REQUESTS_KEPT_S * 1000),
        (VERDICTS, lambda _: is_stale()),
        (PAST_USAGE, lambda now_ms: _without_owner(now_ms - USAGE_KEPT_S * 1000)),
    ]
    pruned = 0
    for table, too_old in old:
        while True:
            removed = await run(_removal(table, too_old))
            pruned += removed
            if removed < PRUNED_AT_ONCE:
                break
    return pruned


def _without_owner(before_ms: int) -> sa.ColumnElement[bool]:
    """Past usage that was last changed before a time, of a name or scaling group that is no more."""
    exists = [
        sa.and_(PAST_USAGE.c.scope == scope.value, PAST_USAGE.c.name.in_(sa.select(table.c.name)))
        for scope, table in _OWNERS.items()
    ]
    has_pool = PAST_USAGE.c.scaling_group.in_(sa.select(SCALING_GROUPS.c.name))
    unused = sa.and_(PAST_USAGE.c.held == 0, PAST_USAGE.c.at_ms < before_ms)
    return sa.and_(unused, sa.not_(sa.and_(has_pool, sa.or_(*exists))))


def _removal(table: sa.Table, too_old: Callable[[int], sa.ColumnElement[bool]]) -> Work:
    key = sa.tuple_(*table.primary_key.columns)

    async def work(unit: SqlUnitOfWork) -> int:
        condition = too_old(unit.now_ms)
        some = sa.select(*table.primary_key.columns).where(condition).limit(PRUNED_AT_ONCE)
        # The condition again: PostgreSQL checks it anew for a row that another transaction has just changed.
        return await unit.transaction.execute(sa.delete(table).where(key.in_(some), condition))

    return work

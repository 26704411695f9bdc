"""Retention: removes rows that are no longer needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.audit_log import SqlAuditTrail
from sokovan.adapters.sql.repositories.serving import deployment_retention
from sokovan.adapters.sql.repositories.sessions import session_retention
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
from sokovan.ports.storage import REQUESTS_KEPT_S, USAGE_KEPT_S, StoreRetention

# Rows removed per unit of work; other writers wait for it, so it must stay short.
PRUNED_AT_ONCE = 2_000
# Units of work of one turn of `expire`, and users that it considers.
EXPIRED_UNITS = 5
USERS_AT_ONCE = 64

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


async def expire(
    run: Callable[[Work], Awaitable[int]],
    read: Callable[[Callable[[SqlUnitOfWork], Awaitable[list[str]]]], Awaitable[list[str]]],
    keep: StoreRetention,
) -> bool:
    """Remove records beyond their retention; whether some may be left.

    Each unit of work removes a bounded number, and at most EXPIRED_UNITS of them remove something.
    """
    works: list[Work] = []
    if keep.audit_s:
        works.append(lambda unit: SqlAuditTrail(unit.transaction).prune(keep.audit_s * 1000))
    if keep.sessions_s:
        works.append(_expiry(keep))
    if keep.sessions_per_user_max:
        most = keep.sessions_per_user_max
        crowded = await read(lambda unit: session_retention.users_beyond(unit.transaction, most, limit=USERS_AT_ONCE))
        works += [_surplus(user, most) for user in crowded]
    if keep.deployments_s:
        works.append(_ended_deployments(keep))
    left = EXPIRED_UNITS
    while works and left:
        # In turns: a user with many sessions does not hold up the others, nor one whose sessions must all stay.
        work = works.pop(0)
        if await run(work):
            works.append(work)
            left -= 1
    return bool(works)


def _expiry(keep: StoreRetention) -> Work:
    async def work(unit: SqlUnitOfWork) -> int:
        return await session_retention.remove_older(unit.transaction, unit.now_ms - keep.sessions_s * 1000)

    return work


def _ended_deployments(keep: StoreRetention) -> Work:
    async def work(unit: SqlUnitOfWork) -> int:
        before_ms, requests_ms = (unit.now_ms - seconds * 1000 for seconds in (keep.deployments_s, REQUESTS_KEPT_S))
        return await deployment_retention.remove_older(unit.transaction, before_ms, requests_before_ms=requests_ms)

    return work


def _surplus(user: str, most: int) -> Work:
    async def work(unit: SqlUnitOfWork) -> int:
        return await session_retention.remove_surplus(unit.transaction, user, most)

    return work


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

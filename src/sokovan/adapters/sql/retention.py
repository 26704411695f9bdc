"""Retention: removes rows that are no longer needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.verdicts import is_stale
from sokovan.adapters.sql.schema.tables import COMMITS, REQUESTS, VERDICTS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.ports.storage import REQUESTS_KEPT_S

# Rows removed per unit of work; other writers wait for it, so it must stay short.
PRUNED_AT_ONCE = 2_000

Work: TypeAlias = Callable[[SqlUnitOfWork], Awaitable[int]]


async def prune(run: Callable[[Work], Awaitable[int]], *, older_than_s: float) -> int:
    """Remove expired rows in several units of work; returns their number."""
    old: list[tuple[sa.Table, Callable[[int], sa.ColumnElement[bool]]]] = [
        (COMMITS, lambda now_ms: COMMITS.c.at_ms < now_ms - int(older_than_s * 1000)),
        (REQUESTS, lambda now_ms: REQUESTS.c.at_ms < now_ms - REQUESTS_KEPT_S * 1000),
        (VERDICTS, lambda _: is_stale()),
    ]
    pruned = 0
    for table, too_old in old:
        while True:
            removed = await run(_removal(table, too_old))
            pruned += removed
            if removed < PRUNED_AT_ONCE:
                break
    return pruned


def _removal(table: sa.Table, too_old: Callable[[int], sa.ColumnElement[bool]]) -> Work:
    key = sa.tuple_(*table.primary_key.columns)

    async def work(unit: SqlUnitOfWork) -> int:
        some = sa.select(*table.primary_key.columns).where(too_old(unit.now_ms)).limit(PRUNED_AT_ONCE)
        return await unit.transaction.execute(sa.delete(table).where(key.in_(some)))

    return work

"""Removes deployments that ended long ago, with all that belongs to them."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import HISTORIES, SERVING
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE

# Deployments removed at once; each has up to 1,000 revisions, and replicas that ended in its last week.
REMOVED_AT_ONCE = 20
_DEPLOYMENTS = SERVING.deployments


async def remove_older(transaction: Transaction, before_ms: int, *, requests_before_ms: int) -> int:
    """Remove a bounded number of deployments that ended before a time; how many.

    One whose creation may be requested again with the same key stays. Usage stays.
    """
    repeatable = sa.and_(_DEPLOYMENTS.c.request_key.is_not(None), _DEPLOYMENTS.c.created_ms >= requests_before_ms)
    old = sa.select(_DEPLOYMENTS.c.deployment_id).where(_DEPLOYMENTS.c.ended_ms < before_ms, sa.not_(repeatable))
    found = await transaction.fetch(old.order_by(_DEPLOYMENTS.c.place).limit(REMOVED_AT_ONCE))
    ids = [row.deployment_id for row in found]
    if not ids:
        return 0
    await _remove(transaction, SERVING.replicas, ids, REPLICA.name)
    await _remove(transaction, SERVING.rollouts, ids, ROLLOUT.name)
    await _remove(transaction, SERVING.routes, ids, ROUTE.name)
    await _remove(transaction, SERVING.tokens, ids)
    await _remove(transaction, SERVING.revisions, ids)
    await _remove(transaction, _DEPLOYMENTS, ids, DEPLOYMENT.name)
    # A proxy that was away for as long has a table with them: in another epoch it reads the whole table.
    version = SERVING.version
    epoch = f"{transaction.now_ms}.{transaction.number}"
    await transaction.execute(sa.update(version).values(epoch=epoch, version=version.c.version + 1))
    return len(ids)


async def _remove(transaction: Transaction, table: sa.Table, ids: list[str], kind: str = "") -> None:
    """Remove the rows of deployments, and then their histories, which they refer to."""
    wanted, bound = sa.select(ids_table(transaction.postgresql).c.id), bound_ids(transaction, ids)
    objects: list[str] = []
    if kind:
        key = next(iter(table.primary_key.columns))
        rows = await transaction.fetch(sa.select(key.label("id")).where(table.c.deployment_id.in_(wanted)), bound)
        objects = [row.id for row in rows]
    await transaction.execute(sa.delete(table).where(table.c.deployment_id.in_(wanted)), bound)
    if objects:
        entries = HISTORIES[kind]
        await transaction.execute(
            sa.delete(entries).where(entries.c.object_id.in_(wanted)), bound_ids(transaction, objects)
        )

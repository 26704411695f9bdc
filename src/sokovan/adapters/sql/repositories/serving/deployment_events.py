"""Histories of a deployment, its replicas, rollouts and route, merged by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.schema.tables import HISTORIES, SERVING
from sokovan.adapters.sql.transaction import Transaction
from sokovan.domain.ids import DeploymentId
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.records import HistoryEntry


def _replica(row: Row[Any]) -> str:
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    return f"replica {row.ordinal} (revision {row.revision}{attempt})"


# The table of each kind of object, the columns that its subject needs, and the subject of a row.
_KINDS: dict[str, tuple[sa.Table, tuple[str, ...], Callable[[Row[Any]], str]]] = {
    DEPLOYMENT.name: (SERVING.deployments, (), lambda _: "deployment"),
    ROUTE.name: (SERVING.routes, (), lambda _: "route"),
    ROLLOUT.name: (
        SERVING.rollouts,
        ("revision_from", "revision_to"),
        lambda row: f"rollout {row.revision_from} to {row.revision_to}",
    ),
    REPLICA.name: (SERVING.replicas, ("revision", "ordinal", "attempt"), _replica),
}


async def newest_events(
    transaction: Transaction, deployment_id: DeploymentId, *, limit: int
) -> list[tuple[str, HistoryEntry]]:
    """The newest entries in order of time, each with its subject; at most `limit`."""
    found: list[tuple[str, HistoryEntry]] = []
    for kind, (table, columns, subject) in _KINDS.items():
        entries, key = HISTORIES[kind], next(iter(table.primary_key.columns))
        statement = (
            sa.select(entries, *[table.c[name] for name in columns])
            .join(table, key == entries.c.object_id)
            .where(table.c.deployment_id == deployment_id)
            .order_by(entries.c.at_ms.desc(), entries.c.object_id, entries.c.sequence.desc())
            .limit(limit)
        )
        found += [(subject(row), history.entry_of(row)) for row in await transaction.fetch(statement)]
    ordered = sorted(found, key=lambda one: (one[1].at_ms, one[0], one[1].sequence))
    return ordered[-limit:]

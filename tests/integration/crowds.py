"""Stores of their own for racers, and many sessions at once for them to race for."""

from collections.abc import Collection, Sequence
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.testing.stored_cluster import StoredCluster, session_spec, submit_all

# Sessions in one unit of work: enough to be fast, few enough to stay small.
TOGETHER = 1000


def store_at(url: str, *, retry: TransactionRetry | None = None, **settings: Any) -> SqlStore:
    """A store with connections of its own on a database that has its schema already."""
    clock = SystemClock()
    return SqlStore(Database(DatabaseSettings(url, **settings), clock=clock), ids=SortableIds(clock), retry=retry)


async def submit_many(cluster: StoredCluster, names: Sequence[str], *, kernels: int = 1, cpu: int = 1000) -> None:
    """Sessions of equal kernels, waiting."""
    specs = [session_spec(name, kernels=kernels, slots={"cpu": cpu}) for name in names]
    for start in range(0, len(specs), TOGETHER):
        await submit_all(cluster.store, specs[start : start + TOGETHER])


async def violations(store: SqlStore, *, only: Collection[str] = ()) -> list[str]:
    """The violations of invariants in one state of the database."""
    return [
        f"{finding.invariant.id} {finding.invariant.title}: {finding.count}, the first: {finding.rows[:3]}"
        for finding in await audit(store, only=only)
        if not finding.holds
    ]

"""Locks on kinds of catalog items, which do nothing on SQLite."""

from __future__ import annotations

from sokovan.adapters.sql.repositories.catalog_locks import lock_to_change, lock_to_rely_on
from sokovan.adapters.sql.schema.tables import BOOKINGS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.stored_cluster import StoredCluster


async def test_one_transaction_may_take_both_locks_and_take_them_again() -> None:
    async def work(unit: SqlUnitOfWork) -> str:
        for _ in range(2):
            await lock_to_rely_on(unit.transaction, BOOKINGS)
            await lock_to_change(unit.transaction, BOOKINGS)
        return "done"

    async with StoredCluster.open() as cluster:
        assert await cluster.store.run(work) == "done"

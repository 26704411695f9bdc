"""Transactions: time, events and savepoints."""

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import sqlite_driver
from sokovan.adapters.sql.schema.tables import CATALOG_MARKS, OUTBOX
from sokovan.adapters.sql.transaction import EVENTS_PER_ROW, Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import FencedOut
from sokovan.domain.events import Event, NoticeIssued
from sokovan.ports.storage import Fence
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


def notice(number: int) -> NoticeIssued:
    return NoticeIssued(at_ms=number, topic="t", about="a")


async def rows(cluster: StoredCluster, table: sa.Table) -> list[Any]:
    return list(await cluster.store.read(lambda unit: unit.transaction.fetch(sa.select(table))))


async def part(transaction: Transaction, kind: str, event: Event, *, fails: bool) -> None:
    async with transaction.savepoint():
        transaction.events.append(event)
        await transaction.insert_new(CATALOG_MARKS, {"kind": kind, "stamp": 1})
        if fails:
            raise LookupError


async def test_a_part_that_fails_takes_its_writes_and_its_events_with_it() -> None:
    async with StoredCluster.open() as cluster:
        await published(cluster)

        async def work(unit: SqlUnitOfWork) -> None:
            transaction = unit.transaction
            transaction.events.append(notice(1))
            with pytest.raises(LookupError):
                await part(transaction, "lost", notice(2), fails=True)
            await part(transaction, "kept", notice(3), fails=False)

        await cluster.store.run_sql(work)
        assert await published(cluster) == [notice(1), notice(3)]
        kinds = {row.kind for row in await rows(cluster, CATALOG_MARKS)}
        assert "kept" in kinds
        assert "lost" not in kinds


async def test_a_prechecked_block_needs_a_savepoint_only_with_other_writers(migrated_postgres_url: str) -> None:
    async def work(unit: SqlUnitOfWork) -> bool:
        async with unit.transaction.prechecked():
            return unit.transaction.connection.in_nested_transaction()

    async with StoredCluster.open() as alone, StoredCluster.open(migrated_postgres_url) as among_others:
        assert not await alone.store.run_sql(work)
        assert await among_others.store.run_sql(work)


async def test_long_statements_of_sqlite_run_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    run = sqlite_driver._run

    def recorded(*arguments: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return run(*arguments)

    async def work(unit: SqlUnitOfWork) -> list[bool]:
        threads.clear()
        await unit.transaction.fetch(sa.select(OUTBOX))
        with unit.transaction.off_loop():
            await unit.transaction.fetch(sa.select(OUTBOX))
        await unit.transaction.fetch(sa.select(OUTBOX))
        return list(threads)

    async with StoredCluster.open(f"sqlite:///{tmp_path}/store.db") as cluster:
        monkeypatch.setattr(sqlite_driver, "_run", recorded)
        assert await cluster.store.read(work) == [True, False, True]


async def test_a_new_row_is_inserted_once() -> None:
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> list[bool]:
            values = {"kind": "x", "stamp": 1}
            return [await unit.transaction.insert_new(CATALOG_MARKS, values) for _ in range(2)]

        assert await cluster.store.run_sql(work) == [True, False]


async def test_many_events_are_cut_into_lines() -> None:
    async with StoredCluster.open() as cluster:
        await published(cluster)
        await cluster.store.run(lambda unit: unit.emit([notice(n) for n in range(2 * EVENTS_PER_ROW + 1)]))
        assert len(await rows(cluster, OUTBOX)) == 3


async def test_each_unit_of_work_has_a_mark_and_a_number_that_grow(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:

            async def work(unit: SqlUnitOfWork) -> tuple[int, int]:
                return unit.transaction.stamp, unit.transaction.number

            first, second = await cluster.store.run_sql(work), await cluster.store.run_sql(work)
            assert first[0] < second[0]
            assert first[1] < second[1]


async def test_the_time_goes_on_inside_a_transaction_of_postgresql(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:

        async def work(unit: SqlUnitOfWork) -> tuple[int, int]:
            return unit.now_ms, await unit.transaction.current_ms()

        began, later = await cluster.store.run_sql(work)
        assert began <= later


async def test_the_time_stands_still_inside_a_transaction_of_sqlite() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:

        async def work(unit: SqlUnitOfWork) -> tuple[int, int]:
            await clock.advance(5)
            return unit.now_ms, await unit.transaction.current_ms()

        began, later = await cluster.store.run_sql(work)
        assert began == later


async def test_a_fence_says_who_leads_instead() -> None:
    async with StoredCluster.open() as cluster:
        with pytest.raises(FencedOut) as never_held:
            await cluster.store.run(lambda unit: unit.fleet.all(), fence=Fence("x", 1))
        assert never_held.value.current is None

"""The invariants are checked while the server runs, and managers that hang hold nobody up."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from importlib.abc import MetaPathFinder

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.entrypoints.embedded.store_tasks import FIRST_AFTER_S, SilentTransactions, StoreAuditor
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_consistent_store_gives_zeros_and_no_log_line() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        telemetry, logged = PrometheusTelemetry(), list[str]()
        auditor = StoreAuditor(cluster.store, telemetry, logged.append, every_s=300)
        assert await auditor.check() is False
        assert logged == []
        assert b'sokovan_invariant_violations{invariant="I1"} 0.0' in telemetry.exposition()
        await auditor.close()


@pytest.mark.slow
async def test_a_violated_invariant_is_counted_and_logged() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.place("s1", "a1")

        async def corrupt(unit: SqlUnitOfWork) -> None:
            await unit.transaction.execute(sa.text("UPDATE agent_slots SET used = used + 1 WHERE slot = 'cpu'"))

        await cluster.store.run_sql(corrupt)
        telemetry, logged = PrometheusTelemetry(), list[str]()
        await StoreAuditor(cluster.store, telemetry, logged.append, every_s=300).check()
        assert b'sokovan_invariant_violations{invariant="I1"} 1.0' in telemetry.exposition()
        assert any("I1" in line for line in logged)


async def test_the_checks_are_imported_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    name, threads = "sokovan.adapters.sql.invariants.auditor", list[threading.Thread]()
    package = importlib.import_module("sokovan.adapters.sql.invariants")

    class Noting(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == name:
                threads.append(threading.current_thread())

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(package, "auditor", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Noting(), *sys.meta_path])
    async with StoredCluster.open() as cluster:
        await StoreAuditor(cluster.store, PrometheusTelemetry(), lambda _: None, every_s=300).check()
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_the_first_check_comes_some_time_after_the_start() -> None:
    async with StoredCluster.open() as cluster:
        telemetry = PrometheusTelemetry()
        (task,) = StoreAuditor(cluster.store, telemetry, lambda _: None, every_s=300).tasks()
        assert await task.work() is False
        assert b'invariant="I1"' not in telemetry.exposition()
        assert task.due() == FIRST_AFTER_S
        await task.work()
        assert b'invariant="I1"' in telemetry.exposition()
        assert task.due() is None


@pytest.mark.slow
async def test_a_transaction_that_hangs_is_ended_counted_and_logged(postgres_url: str) -> None:
    lock = sa.text("LOCK TABLE sessions")
    async with StoredCluster.open(postgres_url) as hanging, StoredCluster.open(postgres_url) as other:
        own = Database(DatabaseSettings(postgres_url, pool_size=1), clock=SystemClock())
        telemetry, logged = PrometheusTelemetry(), list[str]()
        ender = SilentTransactions(own, telemetry, logged.append)
        (task,) = ender.tasks()
        async with hanging.store.database.writing() as connection:
            await connection.execute(lock)
            waiting = asyncio.create_task(other.store.run_sql(lambda unit: unit.transaction.execute(lock)))
            while not waiting.done():
                assert await task.work() is False
            await waiting
            with pytest.raises(DBAPIError):
                await connection.execute(lock)
        assert b"sokovan_silent_transactions_ended_total 1.0" in telemetry.exposition()
        assert ["it was silent" in line for line in logged] == [True]
        await ender.close()

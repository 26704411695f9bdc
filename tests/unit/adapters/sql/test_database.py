"""Database addresses, error classes, transactions, and the writer queue."""

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.database import (
    _QUEUES,
    Database,
    DatabaseSettings,
    WriterQueue,
    writer_queue,
)
from sokovan.adapters.sql.store import TransactionRetry
from sokovan.testing.clock import VirtualClock, until
from sokovan.testing.stored_cluster import StoredCluster

SYSTEM_CLOCK = SystemClock()


def database(url: str) -> Database:
    return Database(DatabaseSettings(url), clock=VirtualClock())


@pytest.mark.parametrize(
    ("url", "in_memory"), [("sqlite://", True), ("sqlite:///:memory:", True), ("sqlite:////tmp/x.db", False)]
)
def test_a_database_knows_whether_it_is_in_memory(url: str, in_memory: bool) -> None:
    assert database(url).in_memory is in_memory
    assert not database(url).is_postgresql


async def count(cluster: StoredCluster, kind: str) -> int:
    async with cluster.store.database.reading() as connection:
        statement = sa.text("SELECT count(*) FROM catalog_marks WHERE kind = :kind")
        return int((await connection.execute(statement, {"kind": kind})).scalar_one())


async def mark(cluster: StoredCluster, kind: str, *, commit: bool, fail: bool = False) -> None:
    async with cluster.store.database.writing() as connection:
        await connection.execute(sa.text("INSERT INTO catalog_marks VALUES (:kind, 1)"), {"kind": kind})
        if fail:
            raise LookupError
        if commit:
            await connection.commit()


async def rolls_back_what_is_not_committed(cluster: StoredCluster) -> None:
    await mark(cluster, "forgotten", commit=False)
    with pytest.raises(LookupError):
        await mark(cluster, "failed", commit=False, fail=True)
    await mark(cluster, "kept", commit=True)
    assert [await count(cluster, kind) for kind in ("forgotten", "failed", "kept")] == [0, 0, 1]


async def goes_on_after_a_commit_that_was_refused(cluster: StoredCluster) -> None:
    async with cluster.store.database.writing() as connection:
        await connection.execute(sa.text("INSERT INTO idempotency_keys VALUES ('u', 'k', 'd', 'nobody', 0)"))
        # That there is no such session is noticed at the commit.
        with pytest.raises(IntegrityError):
            await connection.commit()
    for kind in ("first", "second"):
        await mark(cluster, kind, commit=True)
    assert [await count(cluster, kind) for kind in ("first", "second")] == [1, 1]


async def test_sqlite_goes_on_after_a_commit_that_was_refused() -> None:
    async with StoredCluster.open() as cluster:
        await goes_on_after_a_commit_that_was_refused(cluster)


async def test_postgresql_goes_on_after_a_commit_that_was_refused(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await goes_on_after_a_commit_that_was_refused(cluster)


async def test_sqlite_rolls_back_what_is_not_committed() -> None:
    async with StoredCluster.open() as cluster:
        await rolls_back_what_is_not_committed(cluster)


async def test_postgresql_rolls_back_what_is_not_committed(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await rolls_back_what_is_not_committed(cluster)


async def test_a_reader_of_postgresql_cannot_write(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster, cluster.store.database.reading() as connection:
        with pytest.raises(DBAPIError, match="read-only"):
            await connection.execute(sa.text("INSERT INTO catalog_marks VALUES ('x', 1)"))


async def test_a_reader_of_sqlite_leaves_nothing_behind() -> None:
    async with StoredCluster.open() as cluster:
        async with cluster.store.database.reading() as connection:
            await connection.execute(sa.text("INSERT INTO catalog_marks VALUES ('x', 1)"))
        assert await count(cluster, "x") == 0


async def test_readers_of_a_file_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    async with StoredCluster.open(f"sqlite:///{tmp_path}/state.db") as cluster:
        async with cluster.store.database.writing() as connection:
            await connection.execute(sa.text("INSERT INTO catalog_marks VALUES ('x', 1)"))
            assert await count(cluster, "x") == 0
            await connection.commit()
        assert await count(cluster, "x") == 1


@pytest.mark.slow
def test_two_threads_write_to_one_file_one_after_the_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(made(url))

    async def write(prefix: str) -> None:
        # Neither gets "database is locked", although neither would wait for it.
        async with StoredCluster.open(url, retry=TransactionRetry(give_up_s=0)) as cluster:
            for number in range(30):
                await cluster.submit(f"{prefix}{number}")

    with ThreadPoolExecutor(2) as threads:
        for written in [threads.submit(asyncio.run, write(prefix)) for prefix in "ab"]:
            written.result(timeout=60)
    assert asyncio.run(stored(url)) == 60


async def made(url: str) -> None:
    async with StoredCluster.open(url):
        pass


async def stored(url: str) -> int:
    async with StoredCluster.open(url) as cluster, cluster.store.database.reading() as connection:
        return int((await connection.execute(sa.text("SELECT count(*) FROM sessions"))).scalar_one())


def test_databases_of_one_file_share_a_queue_and_those_in_memory_do_not(tmp_path: Path) -> None:
    first, second, other = (database(f"sqlite:///{tmp_path}/{name}.db") for name in ("a", "a", "b"))
    assert first._writers is second._writers
    assert first._writers is not other._writers
    assert database("sqlite://")._writers is not database("sqlite://")._writers
    assert database("postgresql://u@h/d")._writers is None


async def test_sqlite_keeps_foreign_keys_and_survives_a_power_cut(tmp_path: Path) -> None:
    async with StoredCluster.open(f"sqlite:///{tmp_path}/state.db") as cluster:
        async with cluster.store.database.reading() as connection:
            found = [
                (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one()
                for name in ("foreign_keys", "journal_mode", "synchronous")
            ]
        assert found == [1, "wal", 2]


async def test_the_time_of_sqlite_is_the_clocks() -> None:
    clock = VirtualClock(now_ms=5_000)
    async with StoredCluster.open(clock=clock) as cluster, cluster.store.database.reading() as connection:
        assert await cluster.store.database.now_ms(connection) == 5_000


async def test_the_time_of_postgresql_is_its_own(migrated_postgres_url: str) -> None:
    clock = VirtualClock(now_ms=5_000)
    async with StoredCluster.open(migrated_postgres_url, clock=clock) as cluster:
        async with cluster.store.database.reading() as connection:
            now = await cluster.store.database.now_ms(connection)
        assert now > 1_700_000_000_000


def in_threads(*works: Callable[[], Awaitable[None]]) -> list[threading.Thread]:
    """Run each function in its own thread and event loop."""

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    threads = [threading.Thread(target=lambda work=work: asyncio.run(run(work))) for work in works]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


async def queued(queue: WriterQueue, count: int) -> None:
    """Wait until `count` writers wait."""

    async def holds() -> bool:
        return len(queue._waiting) == count

    await until(holds, elapse=SYSTEM_CLOCK.sleep)


def test_two_loops_in_two_threads_are_never_inside_together() -> None:
    queue, inside, overlaps, rounds = WriterQueue(), list[int](), list[int](), [0, 0]

    async def writer(number: int) -> None:
        for _ in range(300):
            async with queue.acquired():
                inside.append(number)
                await SYSTEM_CLOCK.sleep(0)
                overlaps.extend(inside[1:])
                inside.remove(number)
                rounds[number] += 1

    joined(in_threads(*[partial(writer, number) for number in (0, 1)]))
    assert rounds == [300, 300]
    assert overlaps == []


def test_writers_are_served_first_come_first_served_from_any_thread() -> None:
    queue, served, hold = WriterQueue(), list[int](), threading.Event()
    begun = [threading.Event() for _ in range(4)]

    async def holder() -> None:
        async with queue.acquired():
            begun[0].set()
            await asyncio.to_thread(hold.wait, 20)

    async def waiter(number: int) -> None:
        task = asyncio.ensure_future(_append(queue, served, number))
        await queued(queue, number)
        begun[number].set()
        await task

    threads = in_threads(holder)
    assert begun[0].wait(60)
    for number in (1, 2, 3):
        threads += in_threads(partial(waiter, number))
        assert begun[number].wait(60)
    hold.set()
    joined(threads)
    assert served == [1, 2, 3]


async def _append(queue: WriterQueue, served: list[int], number: int) -> None:
    async with queue.acquired():
        served.append(number)


async def test_a_cancelled_waiter_leaves_the_queue() -> None:
    queue, served = WriterQueue(), list[int]()
    async with queue.acquired():
        tasks = [asyncio.ensure_future(_append(queue, served, number)) for number in range(3)]
        await queued(queue, 3)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert len(queue._waiting) == 2
    await asyncio.gather(tasks[0], tasks[2])
    assert served == [0, 2]


async def test_a_slot_granted_together_with_a_cancellation_goes_to_the_next() -> None:
    queue, served = WriterQueue(), list[int]()
    async with queue.acquired():
        tasks = [asyncio.ensure_future(_append(queue, served, number)) for number in range(2)]
        await queued(queue, 2)
    # The first has been granted the slot, and has not run yet.
    assert len(queue._waiting) == 1
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == [1]
    await _append(queue, served, 2)
    assert served == [1, 2]


async def test_a_writer_that_fails_releases_the_slot() -> None:
    queue, served = WriterQueue(), list[int]()

    async def fails() -> None:
        async with queue.acquired():
            raise LookupError

    with pytest.raises(LookupError):
        await fails()
    await _append(queue, served, 1)
    assert served == [1]


async def test_a_waiter_of_a_closed_loop_does_not_block_the_queue() -> None:
    queue, served = WriterQueue(), list[int]()
    closed = asyncio.new_event_loop()
    async with queue.acquired():
        dead = closed.create_future()
        queue._waiting.append(dead)
        closed.close()
        task = asyncio.ensure_future(_append(queue, served, 1))
        await queued(queue, 2)
    await task
    assert served == [1]


def test_a_file_has_one_queue_however_its_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    queue = writer_queue(str(tmp_path / "state.db"))
    assert writer_queue("state.db") is queue
    assert writer_queue(f"{os.curdir}/x/../state.db") is queue
    assert writer_queue("link.db") is queue
    assert writer_queue("other.db") is not queue


@pytest.mark.slow
def test_an_unused_queue_is_garbage_collected(tmp_path: Path) -> None:
    path = str(tmp_path.resolve() / "state.db")
    kept = writer_queue(path)
    gc.collect()
    assert path in _QUEUES
    del kept
    gc.collect()
    assert path not in _QUEUES

"""Units of work under faults: tried again, done once, and given up in time."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql import migration
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.schema.tables import OUTBOX
from sokovan.adapters.sql.sqlite_connections import SqliteConnection
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import OutcomeUnknown, StoreUnavailable
from sokovan.domain.events import NoticeIssued
from sokovan.domain.owners.tenancy import Domain
from sokovan.ports.environment import Clock
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster

# For faults that pass; a busy machine needs time for some attempts.
PATIENT = TransactionRetry(give_up_s=30, pause_first_s=0.001, pause_max_s=0.01)
QUICK = TransactionRetry(give_up_s=0.2, pause_first_s=0.001, pause_max_s=0.01)


class FlakyDatabase(Database):
    """A database whose connection breaks at named moments, a given number of times."""

    breaks_before_commit = 0
    breaks_after_commit = 0

    def __init__(self, settings: DatabaseSettings, *, clock: Clock) -> None:
        super().__init__(settings, clock=clock)
        event.listen(self.engine.sync_engine, "commit", self._before_commit)

    @asynccontextmanager
    async def writing(self, *, durable: bool = True) -> AsyncIterator[AsyncConnection]:
        async with super().writing(durable=durable) as connection:
            yield connection
        if self.breaks_after_commit:
            self.breaks_after_commit -= 1
            raise ConnectionResetError

    def _before_commit(self, connection: Connection) -> None:
        del connection
        if self.breaks_before_commit:
            self.breaks_before_commit -= 1
            raise ConnectionResetError


@asynccontextmanager
async def flaky(url: str, retry: TransactionRetry = PATIENT) -> AsyncIterator[tuple[StoredCluster, FlakyDatabase]]:
    clock = SystemClock()
    database = FlakyDatabase(DatabaseSettings(url), clock=clock)
    try:
        await migration.upgrade(database)
        yield StoredCluster(SqlStore(database, ids=SortableIds(clock), retry=retry)), database
    finally:
        await database.close()


@pytest.fixture(params=["memory", "file", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("migrated_postgres_url"))
    folder = request.getfixturevalue("tmp_path")
    return "sqlite://" if request.param == "memory" else f"sqlite:///{folder}/state.db"


def counted(calls: list[int]) -> Callable[[SqlUnitOfWork], Awaitable[int]]:
    """Work that emits an event, and counts how often it was begun."""

    async def work(unit: SqlUnitOfWork) -> int:
        calls.append(len(calls))
        await unit.emit([NoticeIssued(at_ms=len(calls), topic="t", about="a")])
        return len(calls)

    return work


async def test_callers_that_come_together_share_a_transaction() -> None:
    batches: list[int] = []

    async def work(unit: UnitOfWork, items: Sequence[int]) -> Sequence[int]:
        del unit
        batches.append(len(items))
        return items

    async with StoredCluster.open() as cluster:
        await asyncio.gather(*(cluster.store.run_batched(work, item) for item in range(64)))
    assert len(batches) <= 3


@pytest.mark.slow
async def test_a_commit_that_was_not_heard_of_is_not_done_twice(url: str) -> None:
    async with flaky(url) as (cluster, database):
        database.breaks_after_commit = 1
        calls: list[int] = []
        assert await cluster.store.run(counted(calls)) == 1
        assert len(calls) == 1
        assert len(await published(cluster)) == 1


async def test_what_fails_strangely_after_the_commit_of_many_is_done_for_none_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(unit: UnitOfWork, items: Sequence[int]) -> list[int]:
        await unit.emit([NoticeIssued(at_ms=item, topic="t", about="a") for item in items])
        return list(items)

    async with flaky(url) as (cluster, _):
        store = cluster.store
        run = store.run

        async def failing_afterwards(unit: Any, **options: Any) -> Any:
            await run(unit, **options)
            raise RuntimeError("unexpected")

        monkeypatch.setattr(store, "run", failing_afterwards)
        results = await asyncio.gather(*(store.run_batched(work, item) for item in range(4)), return_exceptions=True)
        assert [type(one) for one in results] == [RuntimeError] * 4
        assert sorted(event.at_ms for event in await published(cluster)) == [0, 1, 2, 3]


@pytest.mark.slow
async def test_work_that_did_not_commit_is_done_again_from_the_beginning(url: str) -> None:
    async with flaky(url) as (cluster, database):
        database.breaks_before_commit = 3
        calls: list[int] = []
        assert await cluster.store.run(counted(calls)) == 4
        assert [event.at_ms for event in await published(cluster)] == [4]


async def test_both_faults_one_after_the_other_do_it_once(url: str) -> None:
    async with flaky(url) as (cluster, database):
        database.breaks_before_commit, database.breaks_after_commit = 1, 2
        calls: list[int] = []
        assert await cluster.store.run(counted(calls)) == 2
        assert [event.at_ms for event in await published(cluster)] == [2]


@pytest.mark.slow
async def test_an_unavailable_database_is_reported_in_time(url: str) -> None:
    async with flaky(url, QUICK) as (cluster, database):
        database.breaks_before_commit = 10**6
        with pytest.raises(StoreUnavailable, match=r"0\.2 s"):
            await cluster.store.run(counted([]))
        database.breaks_before_commit = 0
        assert not await published(cluster)


async def test_an_address_without_a_server_is_unavailable(unused_tcp_port: int) -> None:
    clock, address = SystemClock(), f"postgresql://u@127.0.0.1:{unused_tcp_port}/d"
    database = Database(DatabaseSettings(address), clock=clock)
    store = SqlStore(database, ids=SortableIds(clock), retry=QUICK)
    with pytest.raises(StoreUnavailable):
        await store.read(lambda unit: unit.fleet.all())
    await store.close()


async def test_a_busy_database_is_asked_again_with_growing_pauses() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock, retry=TransactionRetry(give_up_s=5)) as cluster:
        tries: list[int] = []

        async def work(unit: SqlUnitOfWork) -> str:
            del unit
            tries.append(clock.monotonic_ms())
            if len(tries) < 4:
                raise OperationalError("BEGIN", {}, Exception("database is locked"))
            return "done"

        assert await eventually(cluster, clock, work) == "done"
        pauses = [later - earlier for earlier, later in pairwise(tries)]
        assert all(longest / 2 - 1 <= pause <= longest + 1 for pause, longest in zip(pauses, (10, 20, 40), strict=True))


async def eventually(
    cluster: StoredCluster, clock: VirtualClock, work: Callable[[SqlUnitOfWork], Awaitable[str]]
) -> str:
    """The result of a unit of work while virtual time passes."""
    task = asyncio.ensure_future(cluster.store.run(work))
    while not task.done():
        if clock.sleeping:
            await clock.advance(0.001)
        else:
            await asyncio.wait([task], timeout=0.001)
    return task.result()


async def test_an_error_of_the_work_is_not_tried_again() -> None:
    async with StoredCluster.open() as cluster:
        tries: list[int] = []

        async def work(unit: SqlUnitOfWork) -> None:
            del unit
            tries.append(1)
            raise LookupError

        with pytest.raises(LookupError):
            await cluster.store.run(work)
        assert tries == [1]


async def test_a_read_is_tried_again_too() -> None:
    async with StoredCluster.open(retry=PATIENT) as cluster:
        tries: list[int] = []

        async def work(unit: SqlUnitOfWork) -> int:
            del unit
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionResetError
            return len(tries)

        assert await cluster.store.read(work) == 3


async def test_pruning_forgets_old_commits_only() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        for name in ("s1", "s2"):
            await cluster.submit(name)
        await clock.advance(100)
        await cluster.submit("s3")
        before = await commits(cluster)
        forgotten = await cluster.store.prune(older_than_s=50)
        assert forgotten == before - 1
        # That of s3, and one for each kind of pruned rows.
        assert await commits(cluster) == 5
        # The numbers continue, so that no snapshot takes a new stamp for an old one.
        await cluster.snapshots.refresh()
        await cluster.store.prune(older_than_s=-1)
        await cluster.submit("s4")
        assert await cluster.snapshots.refresh()
        assert len((await cluster.snapshots.snapshot(next(iter(cluster.snapshots.scaling_groups())))).sessions) == 4


async def commits(cluster: StoredCluster) -> int:
    statement = sa.text("SELECT count(*) FROM commits")
    async with cluster.store.database.reading() as connection:
        return int((await connection.execute(statement)).scalar_one())


async def test_a_closed_store_opens_again_when_it_is_used(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "state.db"
    async with StoredCluster.open(f"sqlite:///{path}") as cluster:
        await cluster.submit("s1")
        await cluster.store.close()
        assert (await cluster.session("s1")).session_id == "s1"


async def test_what_users_wrote_does_not_come_out_in_an_error() -> None:
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> None:
            await unit.transaction.execute(sa.insert(OUTBOX), {"at_ms": None, "events": "geheim"})

        with pytest.raises(IntegrityError) as refused:
            await cluster.store.run_sql(work)
        assert "geheim" not in str(refused.value)


Fill = Callable[[bool], Awaitable[None]]


@asynccontextmanager
async def full_disk(path: str, reported: list[str]) -> AsyncIterator[tuple[SqlStore, Fill]]:
    """A store on SQLite, and a function that fills its disk or makes room."""
    clock = SystemClock()
    database = Database(DatabaseSettings(f"sqlite:///{path}", pool_size=1), clock=clock)
    await migration.upgrade(database)
    retry = TransactionRetry(give_up_s=60, full_disk_s=0.05, pause_first_s=0.001, pause_max_s=0.01)
    store = SqlStore(database, ids=SortableIds(clock), retry=retry, report=reported.append)

    async def fill(full: bool) -> None:
        # On the connection that writes. Fewer pages than it has: none can be added.
        async with database.writing() as connection:
            await connection.execute(sa.text(f"PRAGMA max_page_count = {1 if full else 1_000_000}"))

    try:
        yield store, fill
    finally:
        await database.close()


async def large(unit: UnitOfWork) -> None:
    await unit.emit([NoticeIssued(at_ms=1, topic="t", about="x" * 100_000)])


@pytest.mark.slow
async def test_a_full_disk_is_given_up_soon_reported_and_then_fails_at_once(tmp_path: Path) -> None:
    reported: list[str] = []
    async with full_disk(str(tmp_path / "state.db"), reported) as (store, fill):
        await store.run(large)
        await fill(True)  # it is full
        with pytest.raises(StoreUnavailable, match="full"):
            await store.run(large)
        assert reported == ["database or disk is full"]
        many = await asyncio.gather(*(store.run(large) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(one, StoreUnavailable) for one in many)
        assert reported == ["database or disk is full"]
        await store.read(lambda unit: unit.fleet.all())
        await fill(False)  # there is room
        await store.run(large)
        assert reported == ["database or disk is full", ""]
        await asyncio.gather(*(store.run(large) for _ in range(20)))


@pytest.mark.slow
async def test_while_writes_fail_one_attempt_at_a_time_probes_the_database(url: str) -> None:
    async with flaky(url, QUICK) as (cluster, database):
        database.breaks_before_commit = 10**6
        with pytest.raises(StoreUnavailable):
            await cluster.store.run(counted([]))
        calls: list[int] = []
        before = database.breaks_before_commit
        many = await asyncio.gather(*(cluster.store.run(counted(calls)) for _ in range(10)), return_exceptions=True)
        assert all(isinstance(one, StoreUnavailable) for one in many)
        assert before - database.breaks_before_commit == len(calls) <= 2
        database.breaks_before_commit = 0
        assert await cluster.store.run(counted([])) == 1


class Cancelled(Exception):
    """A statement that the server cancelled because it took too long."""

    sqlstate = "57014"


async def contended(_unit: UnitOfWork) -> None:
    raise DBAPIError("UPDATE", {}, Cancelled("canceling statement due to statement timeout"))


@pytest.mark.slow
async def test_writes_work_again_once_one_was_only_cancelled(url: str) -> None:
    async with flaky(url, QUICK) as (cluster, database):
        database.breaks_before_commit = 10**6
        with pytest.raises(StoreUnavailable):
            await cluster.store.run(counted([]))
        database.breaks_before_commit = 0
        # A server that cancels a statement answers.
        with pytest.raises(StoreUnavailable, match="busy: canceling statement"):
            await cluster.store.run(contended)
        calls: list[int] = []
        await asyncio.gather(*(cluster.store.run(counted(calls)) for _ in range(10)))
        assert len(calls) == 10


@pytest.mark.slow
async def test_a_commit_without_room_is_known_to_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_room(_connection: SqliteConnection) -> None:
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("database or disk is full"))

    async with full_disk(str(tmp_path / "state.db"), []) as (store, _):
        with monkeypatch.context() as patched:
            patched.setattr(SqliteConnection, "commit", no_room)
            with pytest.raises(StoreUnavailable, match="full") as refused:
                await store.run(lambda unit: unit.catalog.put(Domain("lab")))
        assert not isinstance(refused.value, OutcomeUnknown)
        assert await store.run(lambda unit: unit.catalog.find((Domain, "lab"))) == [None]

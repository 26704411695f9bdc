"""A connection that ends in the middle of a commit: whatever the client sees, the effect happens once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.schema.tables import HELD_SLOTS, KERNEL_HISTORY, OUTBOX, SESSION_HISTORY
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.testing.clock import until
from sokovan.testing.fault_proxy import CommitFault, FaultProxy
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster
from tests.integration.crowds import store_at, violations

CLOCK = SystemClock()
TIMEOUT_S = 180.0
SLOTS = {"cpu": 1000}


@dataclass(frozen=True)
class Line:
    """One line of what a session left behind, without its times."""

    what: str
    sequence: int
    before: str | None
    after: str


@dataclass(frozen=True)
class Work:
    """Something to be done once, and how far the session is brought before it."""

    act: Callable[[StoredCluster, str], Awaitable[object]]
    placed: bool = False
    stopped: bool = False

    async def prepare(self, cluster: StoredCluster, name: str) -> None:
        if self.act in {enqueue, enqueue_with_a_key}:
            return
        await cluster.submit(name, slots=SLOTS)
        if self.placed:
            await cluster.place(name, "a1")
        if self.stopped:
            await cluster.stop(name)


async def enqueue(cluster: StoredCluster, name: str) -> object:
    return await cluster.submit(name, slots=SLOTS)


async def enqueue_with_a_key(cluster: StoredCluster, name: str) -> object:
    return await cluster.submit(name, slots=SLOTS, request=RequestKey("user", f"key of {name}", "digest"))


async def move(cluster: StoredCluster, name: str) -> object:
    session = await cluster.move(name, KernelTrigger.IMAGE_READY)
    assert [kernel.version for kernel in session.kernels] == [3]
    return session


async def allocate(cluster: StoredCluster, name: str) -> object:
    batch = await cluster.place(name, "a1")
    assert [result.session_id for result in batch.allocated] == [name]
    assert batch.refused == {}
    return batch


async def free(cluster: StoredCluster, name: str) -> object:
    placed = (await cluster.session(name)).kernels
    return await cluster.store.run(lambda unit: unit.ledger.free(placed, FreeProof.NEVER_SENT, BY_COORDINATOR))


WORKS = {
    "enqueue": Work(enqueue),
    "enqueue with a key": Work(enqueue_with_a_key),
    "move": Work(move, placed=True),
    "allocate": Work(allocate),
    "free": Work(free, placed=True, stopped=True),
}


@pytest.fixture
async def steady(migrated_postgres_url: str) -> AsyncIterator[StoredCluster]:
    """The cluster without any fault, with one agent."""
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await cluster.agent("a1")
        yield cluster


@pytest.fixture
async def proxy(migrated_postgres_url: str, steady: StoredCluster) -> AsyncIterator[FaultProxy]:
    del steady
    async with FaultProxy(migrated_postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy: FaultProxy) -> AsyncIterator[StoredCluster]:
    """The same cluster, by way of the proxy."""
    # A new connection may take longer than the usual limit on a busy machine.
    store = store_at(proxy.url, retry=TransactionRetry(give_up_s=TIMEOUT_S))
    yield StoredCluster(store)
    await store.close()


async def left_behind(cluster: StoredCluster, name: str) -> tuple[list[Line], int]:
    """Everything that a session left behind, and the number of its batches of events."""

    async def work(unit: SqlUnitOfWork) -> tuple[list[Line], int]:
        fetch, lines = unit.transaction.fetch, list[Line]()
        for table in (SESSION_HISTORY, KERNEL_HISTORY):
            rows = await fetch(sa.select(table).where(table.c.object_id.startswith(name)).order_by(table.c.sequence))
            lines += [Line(f"{table.name} {row.trigger}", row.sequence, row.before, row.after) for row in rows]
        for row in await fetch(sa.select(HELD_SLOTS).where(HELD_SLOTS.c.kernel_id.startswith(name))):
            lines.append(Line("held", row.amount, row.agent_id, str(row.proof)))
        batches = await fetch(sa.select(OUTBOX.c.sequence).where(OUTBOX.c.events.contains(name)))
        return lines, len(batches)

    return await cluster.store.read(work)


async def a_retry_waits(store: SqlStore) -> bool:
    """Whether a transaction waits for the lock of another one."""
    question = sa.text(
        "SELECT count(*) AS waiting FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO commits%'"
    )
    row = await store.read(lambda unit: unit.transaction.first(question))
    assert row is not None
    return bool(row.waiting == 1)


async def check_once(steady: StoredCluster, work: Work) -> None:
    """Check that the session with the fault left the same rows as one without."""
    await work.prepare(steady, "calm")
    await work.act(steady, "calm")
    assert await left_behind(steady, "faulty") == await left_behind(steady, "calm")
    assert await violations(steady.store) == []


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("fault", [CommitFault.LOST, CommitFault.UNANSWERED])
async def test_a_connection_that_ends_at_the_commit_does_the_work_once(
    steady: StoredCluster, shaky: StoredCluster, proxy: FaultProxy, *, fault: CommitFault, name: str
) -> None:
    work = WORKS[name]
    await work.prepare(steady, "faulty")
    proxy.arm(fault)
    await asyncio.wait_for(work.act(shaky, "faulty"), TIMEOUT_S)
    await asyncio.wait_for(proxy.struck(), TIMEOUT_S)
    await check_once(steady, work)


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("committed", [True, False])
async def test_a_retry_waits_for_the_commit_that_is_still_on_its_way(
    steady: StoredCluster, shaky: StoredCluster, proxy: FaultProxy, *, committed: bool, name: str
) -> None:
    work = WORKS[name]
    await work.prepare(steady, "faulty")
    proxy.arm(CommitFault.HELD)
    acting = asyncio.ensure_future(work.act(shaky, "faulty"))
    await asyncio.wait_for(proxy.struck(), TIMEOUT_S)
    await until(lambda: a_retry_waits(steady.store), elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
    assert not acting.done()
    proxy.release(committed=committed)
    await asyncio.wait_for(acting, TIMEOUT_S)
    await check_once(steady, work)


async def test_the_same_request_sent_again_after_a_lost_answer_finds_its_session(
    steady: StoredCluster, shaky: StoredCluster, proxy: FaultProxy
) -> None:
    proxy.arm(CommitFault.UNANSWERED)
    await enqueue_with_a_key(shaky, "faulty")
    key = RequestKey("user", "key of faulty", "digest")
    again = await steady.submit("another", slots=SLOTS, request=key)
    assert again.session_id == "faulty"
    assert await left_behind(steady, "another") == ([], 0)

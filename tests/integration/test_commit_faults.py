"""A connection that ends in the middle of a commit: whatever the client sees, the effect happens once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.store import RetryRule, SqlStore
from sokovan.adapters.sql.tables import HELD_SLOTS, KERNEL_HISTORY, OUTBOX, SESSION_HISTORY
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.ports.sessions import RequestKey, SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import until
from sokovan.testing.fault_proxy import CommitFault, FaultProxy
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster
from tests.integration.crowds import broken_laws, store_at

CLOCK = SystemClock()
PATIENCE_S = 30.0
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
async def steady(postgres_url: str) -> AsyncIterator[StoredCluster]:
    """The cluster without any fault, with one agent."""
    async with StoredCluster.open(postgres_url) as cluster:
        await cluster.agent("a1")
        yield cluster


@pytest.fixture
async def proxy(postgres_url: str, steady: StoredCluster) -> AsyncIterator[FaultProxy]:
    del steady
    async with FaultProxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy: FaultProxy) -> AsyncIterator[StoredCluster]:
    """The same cluster, by way of the proxy."""
    store = store_at(proxy.url)
    yield StoredCluster(store)
    await store.close()


async def left_behind(cluster: StoredCluster, name: str) -> tuple[list[Line], int]:
    """Everything that a session left behind, and in how many batches of events it is spoken of."""

    async def work(unit: SqlUnitOfWork) -> tuple[list[Line], int]:
        fetch, lines = unit.transaction.fetch, list[Line]()
        for table in (SESSION_HISTORY, KERNEL_HISTORY):
            rows = await fetch(sa.select(table).where(table.c.object_id.startswith(name)).order_by(table.c.sequence))
            lines += [Line(f"{table.name} {row.trigger}", row.sequence, row.before, row.after) for row in rows]
        for row in await fetch(sa.select(HELD_SLOTS).where(HELD_SLOTS.c.kernel_id.startswith(name))):
            lines.append(Line("held", row.amount, row.agent_id, str(row.proof)))
        told = await fetch(sa.select(OUTBOX.c.sequence).where(OUTBOX.c.events.contains(name)))
        return lines, len(told)

    return await cluster.store.read(work)


async def a_retry_waits(store: SqlStore) -> bool:
    """Whether the server has somebody wait for another transaction to end."""
    question = sa.text(
        "SELECT count(*) AS waiting FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO commits%'"
    )
    row = await store.read(lambda unit: unit.transaction.first(question))
    assert row is not None
    return bool(row.waiting == 1)


async def check_once(steady: StoredCluster, work: Work) -> None:
    """What the session with the fault left behind is what one without a fault does."""
    await work.prepare(steady, "calm")
    await work.act(steady, "calm")
    assert await left_behind(steady, "faulty") == await left_behind(steady, "calm")
    assert await broken_laws(steady.store) == []


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("fault", [CommitFault.LOST, CommitFault.UNANSWERED])
async def test_a_connection_that_ends_at_the_commit_does_the_work_once(
    steady: StoredCluster, shaky: StoredCluster, proxy: FaultProxy, *, fault: CommitFault, name: str
) -> None:
    work = WORKS[name]
    await work.prepare(steady, "faulty")
    proxy.arm(fault)
    await asyncio.wait_for(work.act(shaky, "faulty"), PATIENCE_S)
    await asyncio.wait_for(proxy.struck(), PATIENCE_S)
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
    await asyncio.wait_for(proxy.struck(), PATIENCE_S)
    await until(lambda: a_retry_waits(steady.store), elapse=CLOCK.sleep, limit_s=PATIENCE_S)
    assert not acting.done()
    proxy.release(committed=committed)
    await asyncio.wait_for(acting, PATIENCE_S)
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


async def test_connections_that_died_in_the_pool_are_not_the_users_trouble(
    steady: StoredCluster, shaky: StoredCluster, proxy: FaultProxy
) -> None:
    await asyncio.gather(*(shaky.submit(f"before{number}", slots=SLOTS) for number in range(10)))
    proxy.cut()
    await asyncio.gather(*(shaky.submit(f"after{number}", slots=SLOTS) for number in range(10)))
    everything = await steady.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    assert len(everything) == 20


async def test_a_database_that_stays_away_is_unavailable_and_works_again_when_it_is_back(
    steady: StoredCluster, proxy: FaultProxy
) -> None:
    store = store_at(proxy.url, retry=RetryRule(give_up_s=0.5))
    cluster = StoredCluster(store)
    await cluster.submit("before", slots=SLOTS)
    await proxy.close()
    with pytest.raises(StoreUnavailable, match=r"for 0\.5 s"):
        await asyncio.wait_for(cluster.submit("lost", slots=SLOTS), PATIENCE_S)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(cluster.session("before"), PATIENCE_S)
    await proxy.start()
    await cluster.submit("after", slots=SLOTS)
    await store.close()
    assert await left_behind(steady, "lost") == ([], 0)


async def test_a_database_that_does_not_answer_is_unavailable_rather_than_waited_for(
    steady: StoredCluster, proxy: FaultProxy
) -> None:
    store = store_at(proxy.url, retry=RetryRule(give_up_s=0.5), statement_timeout_s=0.5)
    cluster = StoredCluster(store)
    await cluster.submit("before", slots=SLOTS)
    proxy.stall()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(cluster.submit("lost", slots=SLOTS), PATIENCE_S)
    proxy.resume()
    proxy.cut()
    await asyncio.wait_for(cluster.submit("after", slots=SLOTS), PATIENCE_S)
    await store.close()
    assert await broken_laws(steady.store) == []


async def test_a_pool_whose_connections_are_all_busy_is_unavailable_after_a_while(
    steady: StoredCluster, postgres_url: str
) -> None:
    del steady
    store = store_at(postgres_url, retry=RetryRule(give_up_s=0.1), pool_size=1, statement_timeout_s=0.5)
    busy, may_end = asyncio.Event(), asyncio.Event()

    async def hold(_unit: object) -> None:
        busy.set()
        await may_end.wait()

    holding = asyncio.ensure_future(store.read(hold))
    await busy.wait()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(store.read(lambda unit: unit.fleet.all()), PATIENCE_S)
    may_end.set()
    # The server ended the idle transaction meanwhile; that is what the time-out is for.
    await asyncio.gather(holding, return_exceptions=True)
    assert len(await store.read(lambda unit: unit.fleet.all())) == 1
    await store.close()


async def test_a_statement_that_waits_too_long_for_a_lock_makes_the_store_unavailable(
    steady: StoredCluster, postgres_url: str
) -> None:
    await steady.submit("wanted", slots=SLOTS)
    store = store_at(postgres_url, retry=RetryRule(give_up_s=0.1), statement_timeout_s=0.2)
    locked, may_end = asyncio.Event(), asyncio.Event()

    async def hold(unit: UnitOfWork) -> None:
        await unit.sessions.want(SessionId("wanted"), Goal.STOP, BY_USER)
        locked.set()
        await may_end.wait()

    holding = asyncio.ensure_future(steady.store.run(hold))
    await locked.wait()
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(StoredCluster(store).stop("wanted"), PATIENCE_S)
    may_end.set()
    await holding
    assert (await StoredCluster(store).stop("wanted")).status is SessionStatus.CANCELLED
    await store.close()

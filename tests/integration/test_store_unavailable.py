"""A database that is away, slow or busy: the store says so after a bounded wait, and works again later."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import ObjectNotFound, StoreUnavailable
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.clock import until
from sokovan.testing.fault_proxy import FaultProxy
from sokovan.testing.stored_cluster import BY_USER, StoredCluster
from tests.integration.crowds import store_at, violations

TIMEOUT_S = 180.0
SLOTS = {"cpu": 1000}


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


async def submitted(cluster: StoredCluster, name: str) -> None:
    """Submit at last: a new connection may take longer than a test's limit on a busy machine."""
    tries = count()

    async def works() -> bool:
        with contextlib.suppress(StoreUnavailable):  # its outcome may be unknown: another name each time
            return bool(await cluster.submit(f"{name}-{next(tries)}", slots=SLOTS))
        return False

    await until(works, elapse=SystemClock().sleep, limit_s=TIMEOUT_S)


async def test_connections_that_died_in_the_pool_are_not_the_users_trouble(
    steady: StoredCluster, proxy: FaultProxy
) -> None:
    # Ten connections at once take longer than the usual limit on a busy machine.
    shaky = StoredCluster(store_at(proxy.url, retry=TransactionRetry(give_up_s=60)))
    await asyncio.gather(*(shaky.submit(f"before{number}", slots=SLOTS) for number in range(10)))
    proxy.cut()
    await asyncio.gather(*(shaky.submit(f"after{number}", slots=SLOTS) for number in range(10)))
    everything = await steady.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=100))
    assert len(everything) == 20
    await shaky.store.close()


async def test_a_database_that_stays_away_is_unavailable_and_works_again_when_it_is_back(
    steady: StoredCluster, proxy: FaultProxy
) -> None:
    store = store_at(proxy.url, retry=TransactionRetry(give_up_s=0.5))
    cluster = StoredCluster(store)
    await submitted(cluster, "before")
    await proxy.close()
    with pytest.raises(StoreUnavailable, match=r"for 0\.5 s"):
        await asyncio.wait_for(cluster.submit("lost", slots=SLOTS), TIMEOUT_S)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(cluster.session("lost"), TIMEOUT_S)
    await proxy.start()
    await submitted(cluster, "after")
    await store.close()
    with pytest.raises(ObjectNotFound):
        await steady.session("lost")


async def test_a_database_that_does_not_answer_is_unavailable_rather_than_waited_for(
    steady: StoredCluster, proxy: FaultProxy
) -> None:
    store = store_at(proxy.url, retry=TransactionRetry(give_up_s=0.5), statement_timeout_s=0.5)
    cluster = StoredCluster(store)
    await submitted(cluster, "before")
    proxy.stall()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(cluster.submit("lost", slots=SLOTS), TIMEOUT_S)
    proxy.resume()
    proxy.cut()
    await submitted(cluster, "after")
    await store.close()
    assert await violations(steady.store) == []


async def test_a_pool_whose_connections_are_all_busy_is_unavailable_after_a_while(
    steady: StoredCluster, migrated_postgres_url: str
) -> None:
    del steady
    store = store_at(migrated_postgres_url, retry=TransactionRetry(give_up_s=0.1), pool_size=1, statement_timeout_s=0.5)
    busy, may_end = asyncio.Event(), asyncio.Event()

    async def hold(_unit: object) -> None:
        busy.set()
        await may_end.wait()

    async def holds() -> None:
        # The first connection may take longer than the half second that a statement may.
        while not busy.is_set():
            with contextlib.suppress(StoreUnavailable):
                await store.read(hold)

    holding = asyncio.ensure_future(holds())
    await asyncio.wait_for(busy.wait(), TIMEOUT_S)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(store.read(lambda unit: unit.fleet.all()), TIMEOUT_S)
    may_end.set()
    # The server ended the idle transaction meanwhile; that is what the time-out is for.
    await asyncio.gather(holding, return_exceptions=True)

    async def answers_again() -> bool:
        # A new connection may take longer than the half second that a reader waits for one.
        with contextlib.suppress(StoreUnavailable):
            return len(await store.read(lambda unit: unit.fleet.all())) == 1
        return False

    await until(answers_again, elapse=SystemClock().sleep, limit_s=TIMEOUT_S)
    await store.close()


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
async def test_a_statement_that_waits_too_long_for_a_lock_is_given_up_alone(
    steady: StoredCluster, migrated_postgres_url: str, limit: str
) -> None:
    await steady.submit("wanted", slots=SLOTS)
    reported: list[str] = []
    clock = SystemClock()
    database = Database(DatabaseSettings(migrated_postgres_url), clock=clock)
    retry = TransactionRetry(give_up_s=0.1)
    store = SqlStore(database, ids=SortableIds(clock), retry=retry, report=reported.append)
    cluster = StoredCluster(store)

    async def answers() -> bool:
        with contextlib.suppress(StoreUnavailable):
            return bool(await store.run(lambda unit: unit.fleet.all()))
        return False

    # A connection is open from here on: on a busy machine a new one may take too long.
    await until(answers, elapse=clock.sleep, limit_s=TIMEOUT_S)
    reported.clear()

    async def stop(unit: SqlUnitOfWork) -> None:
        await unit.transaction.execute(sa.text(f"SET LOCAL {limit} = 200"))
        await unit.sessions.set_goal(SessionId("wanted"), Goal.STOP, BY_USER)

    locked, may_end = asyncio.Event(), asyncio.Event()

    async def hold(unit: UnitOfWork) -> None:
        await unit.sessions.set_goal(SessionId("wanted"), Goal.STOP, BY_USER)
        locked.set()
        await may_end.wait()

    holding = asyncio.ensure_future(steady.store.run(hold))
    await locked.wait()
    for number in range(3):
        with pytest.raises(StoreUnavailable, match="busy: canceling statement due to"):
            await asyncio.wait_for(store.run_sql(stop), TIMEOUT_S)
        # Others do not wait for that lock, and are not refused: the database is there.
        await cluster.submit(f"other{number}", slots=SLOTS)
    assert reported == []
    may_end.set()
    await holding
    assert (await cluster.stop("wanted")).status is SessionStatus.CANCELLED
    await store.close()

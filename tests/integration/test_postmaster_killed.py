"""A PostgreSQL that is killed and started again, while its clients go on working."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random  # noqa: TID251  # seeded: the same draws on every run

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.store import SqlStore, TransactionRetry
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.testing.clock import until
from sokovan.testing.servers import PostgresServer, StandbyServer
from sokovan.testing.stored_cluster import StoredCluster
from tests.integration.crowds import store_at, violations

CLOCK = SystemClock()
WORKERS = 4
KILLS = 4
AGENTS = ("a1", "a2", "a3")
SLOTS = {"cpu": 1000}
# Room for fewer sessions than there are workers, so that some are always refused.
ROOM = {"cpu": 1000}
TIMEOUT_S = 180.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class Worker:
    """Submits, allocates, stops and frees, one session after the other, until `stopping` is set."""

    def __init__(self, store: SqlStore, number: int) -> None:
        self._cluster, self._number = StoredCluster(store), number
        self._random = Random(number)  # noqa: S311  # draws for a test, no secret among them
        self.rounds = self.allocated = self.refused = self.unavailable = 0
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._round(f"w{self._number}-{self.rounds}-{self.unavailable}")
                self.rounds += 1
            except StoreUnavailable:
                self.unavailable += 1

    async def _round(self, name: str) -> None:
        await self._cluster.submit(name, slots=SLOTS)
        batch = await self._cluster.place(name, self._random.choice(AGENTS))
        self.allocated += len(batch.allocated)
        self.refused += len(batch.refused)
        await self._cluster.stop(name)
        if batch.allocated:
            await self._cluster.free(name, FreeProof.NEVER_SENT)


@asynccontextmanager
async def working(url: str) -> AsyncIterator[list[Worker]]:
    """Workers at work; whatever one of them raises is raised at the end."""
    stores = [store_at(url, retry=TransactionRetry(give_up_s=TIMEOUT_S)) for _ in range(WORKERS)]
    workers = [Worker(store, number) for number, store in enumerate(stores)]
    tasks = [asyncio.ensure_future(worker.run()) for worker in workers]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stopping = True
        await asyncio.wait_for(asyncio.gather(*tasks), TIMEOUT_S)
        for store in stores:
            await store.close()


async def everybody_works(workers: list[Worker], *, rounds: int) -> None:
    """Return once each worker has done so many more rounds."""
    before = [worker.rounds for worker in workers]

    async def is_done() -> bool:
        return all(worker.rounds >= start + rounds for worker, start in zip(workers, before, strict=True))

    await until(is_done, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)


async def test_workers_outlive_a_server_that_is_killed_again_and_again(server: PostgresServer) -> None:
    url = server.create_database("killed")
    jitter = Random(1)  # noqa: S311  # draws for a test, no secret among them
    async with StoredCluster.open(url) as cluster:
        for agent in AGENTS:
            await cluster.agent(agent, slots=ROOM, devices=False)
        async with working(url) as workers:
            for _ in range(KILLS):
                await everybody_works(workers, rounds=jitter.randint(1, 8))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                assert await violations(cluster.store) == []
            await everybody_works(workers, rounds=3)
        assert await violations(cluster.store) == []
        agents = await cluster.store.read(lambda unit: unit.fleet.all())
    assert [agent.info.occupied_slots["cpu"] for agent in agents] == [0, 0, 0]
    assert sum(worker.allocated for worker in workers) > 0
    assert sum(worker.refused for worker in workers) > 0


def with_standby(url: str, standby: StandbyServer) -> str:
    """The address of a database with both of its servers, the standby first."""
    before, _, after = url.rpartition("@")
    return f"{before}@127.0.0.1:{standby.port},{after}?target_session_attrs=read-write"


async def test_workers_go_on_at_a_standby_that_is_promoted(server: PostgresServer) -> None:
    url = server.create_database("promoted")
    with StandbyServer(server) as standby:
        # No commit is lost with the primary: each waits for the standby.
        server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        server.execute("SELECT pg_reload_conf()")
        both = with_standby(url, standby)
        async with StoredCluster.open(both) as cluster:
            for agent in AGENTS:
                await cluster.agent(agent, slots=ROOM, devices=False)
            async with working(both) as workers:
                await everybody_works(workers, rounds=3)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(standby.promote)
                await everybody_works(workers, rounds=3)
            assert await violations(cluster.store) == []
            agents = await cluster.store.read(lambda unit: unit.fleet.all())
        assert [agent.info.occupied_slots["cpu"] for agent in agents] == [0, 0, 0]


async def test_servers_that_are_all_standbys_are_unavailable(server: PostgresServer) -> None:
    url = server.create_database("standbys")
    with StandbyServer(server) as standby:
        twice = with_standby(url.replace(f":{server.port}/", f":{standby.port}/"), standby)
        store = store_at(twice, retry=TransactionRetry(give_up_s=0.5))
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(store.read(lambda unit: unit.fleet.all()), TIMEOUT_S)
        await store.close()


async def test_a_pool_full_of_connections_from_before_a_restart_works_on(server: PostgresServer) -> None:
    # Ten connections at once take longer than the usual limit on a busy machine.
    retry = TransactionRetry(give_up_s=TIMEOUT_S)
    async with StoredCluster.open(server.create_database("restarted"), retry=retry) as cluster:
        await asyncio.gather(*(cluster.submit(f"before{number}", slots=SLOTS) for number in range(10)))
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*(cluster.submit(f"after{number}", slots=SLOTS) for number in range(10)))
        assert await violations(cluster.store) == []


async def test_a_server_that_is_gone_is_unavailable_to_readers_and_writers(server: PostgresServer) -> None:
    retry = TransactionRetry(give_up_s=0.5)
    async with StoredCluster.open(server.create_database("gone"), retry=retry) as cluster:
        await cluster.submit("before", slots=SLOTS)
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(cluster.submit("lost", slots=SLOTS), TIMEOUT_S)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(cluster.session("before"), TIMEOUT_S)
        await asyncio.to_thread(server.start)

        async def is_read() -> bool:
            # A new connection may take longer than the half second of this store.
            with contextlib.suppress(StoreUnavailable):
                return (await cluster.session("before")).session_id == "before"
            return False

        await until(is_read, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)

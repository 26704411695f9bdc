"""Lines of the outbox on their way out."""

import asyncio
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.events import Event, NoticeIssued
from sokovan.testing.contracts.storage import emitted_apart, notice, published
from sokovan.testing.fault_proxy import FaultProxy
from sokovan.testing.stored_cluster import StoredCluster


async def test_two_who_publish_at_once_take_different_lines(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await published(cluster)
        await emitted_apart(cluster, 4)
        inside, go_on = asyncio.Event(), asyncio.Event()
        taken: list[Event] = []

        async def slow(batch: Sequence[Event]) -> None:
            inside.set()
            await go_on.wait()
            taken.extend(batch)

        first = asyncio.ensure_future(cluster.store.outbox.publish_pending(slow, limit=2))
        await inside.wait()
        others = await published(cluster)
        go_on.set()
        assert await first == 2
        assert [*taken, *others] == [notice(number) for number in range(4)]


async def test_an_unreadable_event_does_not_block_others() -> None:
    async with StoredCluster.open() as cluster:
        await published(cluster)
        async with cluster.store.database.writing() as connection:
            statement = sa.text("INSERT INTO outbox (at_ms, events) VALUES (0, :events)")
            await connection.execute(statement, {"events": '[["Unheard", {}], ["SessionMoved", {"at_ms": "noon"}]]'})
            await connection.commit()
        await cluster.store.run(lambda unit: unit.emit([notice(1)]))
        assert await published(cluster) == [notice(1)]
        assert await published(cluster) == []


async def test_a_database_that_is_away_is_said_and_what_the_bus_raises_comes_through(
    migrated_postgres_url: str,
) -> None:
    async def refuse(_: Sequence[Event]) -> None:
        raise ConnectionRefusedError("the bus")

    async with FaultProxy(migrated_postgres_url) as proxy, StoredCluster.open(proxy.url) as cluster:
        await cluster.store.run(lambda unit: unit.emit([notice(1)]))
        with pytest.raises(ConnectionRefusedError, match="the bus"):
            await cluster.store.outbox.publish_pending(refuse, limit=1)
        await proxy.close()
        with pytest.raises(StoreUnavailable):
            await cluster.store.outbox.publish_pending(refuse, limit=1)


async def test_an_event_comes_out_as_it_went_in() -> None:
    event = NoticeIssued(at_ms=1, topic="price", about="s1", body={"näme": "välue ' \" \\ %s :x"})
    async with StoredCluster.open() as cluster:
        await published(cluster)
        await cluster.store.run(lambda unit: unit.emit([event]))
        assert await published(cluster) == [event]

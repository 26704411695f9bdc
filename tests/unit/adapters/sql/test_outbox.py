"""Lines of the outbox on their way out."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import outbox
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


async def rows_kept(cluster: StoredCluster) -> int:
    async with cluster.store.database.reading() as connection:
        return int((await connection.execute(sa.text("SELECT count(*) FROM outbox"))).scalar_one())


async def test_on_sqlite_events_are_published_while_another_writes(tmp_path: Path) -> None:
    async with StoredCluster.open(f"sqlite:///{tmp_path}/state.db") as cluster:
        await published(cluster)
        await emitted_apart(cluster, 2)
        async with cluster.store.database.writing():
            assert await published(cluster) == [notice(0), notice(1)]


async def test_on_sqlite_published_rows_are_removed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "KEPT_MAX", 4)
    async with StoredCluster.open() as cluster:
        await published(cluster)
        await published(cluster)  # nothing is new: what was published is removed
        kept = []
        for number in (1, 2, 1):
            await emitted_apart(cluster, number)
            assert len(await published(cluster)) == number
            kept.append(await rows_kept(cluster))
        await emitted_apart(cluster, 1)
        assert await published(cluster) == [notice(0)]
        kept.append(await rows_kept(cluster))
        assert await published(cluster) == []
        assert [*kept, await rows_kept(cluster)] == [1, 3, 0, 1, 0]


async def test_what_the_bus_refused_is_published_again_and_nothing_before_it() -> None:
    async with StoredCluster.open() as cluster:
        await published(cluster)
        await emitted_apart(cluster, 1)
        await published(cluster)
        await cluster.store.run(lambda unit: unit.emit([notice(7)]))

        async def refuse(_: Sequence[Event]) -> None:
            raise ConnectionRefusedError("the bus")

        with pytest.raises(ConnectionRefusedError):
            await cluster.store.outbox.publish_pending(refuse, limit=5)
        assert await published(cluster) == [notice(7)]


class FailingBus:
    """Takes events until its call number `fails_at`, which it refuses."""

    def __init__(self, fails_at: int = 0) -> None:
        self.calls: list[list[Event]] = []
        self._fails_at = fails_at

    async def publish(self, events: Sequence[Event]) -> None:
        if len(self.calls) + 1 == self._fails_at:
            raise ConnectionRefusedError("the bus")
        self.calls.append(list(events))


async def test_on_sqlite_rows_before_the_one_that_the_bus_refused_are_not_published_again() -> None:
    async with StoredCluster.open() as cluster:
        await published(cluster)
        await published(cluster)
        await emitted_apart(cluster, 5)
        bus = FailingBus(fails_at=3)
        with pytest.raises(ConnectionRefusedError):
            await cluster.store.outbox.publish_pending(bus.publish, limit=5)
        assert bus.calls == [[notice(0)], [notice(1)]]
        assert await published(cluster) == [notice(2), notice(3), notice(4)]
        assert await published(cluster) == []
        assert await rows_kept(cluster) == 0


async def test_on_postgresql_all_rows_are_passed_to_the_bus_at_once(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await published(cluster)
        await emitted_apart(cluster, 5)
        bus = FailingBus()
        assert await cluster.store.outbox.publish_pending(bus.publish, limit=5) == 5
        assert bus.calls == [[notice(number) for number in range(5)]]
        # So many that one call would take long: a row may be divided.
        monkeypatch.setattr(outbox, "EVENTS_AT_ONCE", 2)
        await emitted_apart(cluster, 2)
        await cluster.store.run(lambda unit: unit.emit([notice(2), notice(3), notice(4)]))
        bus = FailingBus()
        assert await cluster.store.outbox.publish_pending(bus.publish, limit=5) == 3
        assert bus.calls == [[notice(0), notice(1)], [notice(2), notice(3)], [notice(4)]]


async def test_on_postgresql_all_rows_stay_if_the_bus_refuses_some(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "EVENTS_AT_ONCE", 2)
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await published(cluster)
        await emitted_apart(cluster, 5)
        bus = FailingBus(fails_at=2)
        with pytest.raises(ConnectionRefusedError):
            await cluster.store.outbox.publish_pending(bus.publish, limit=5)
        assert await published(cluster) == [notice(number) for number in range(5)]


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

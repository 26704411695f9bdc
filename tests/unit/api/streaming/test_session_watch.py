"""Sessions as their watchers see them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sokovan.api.mapping.sessions import KERNELS_SHOWN
from sokovan.api.streaming import session_watch
from sokovan.api.streaming.session_watch import WatchedSessions
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.testing.stored_cluster import StoredCluster


def counted_reads(cluster: StoredCluster, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The units of work that are read from now on."""
    done: list[Any] = []
    read = cluster.store.read

    async def counted(work: Any) -> Any:
        done.append(work)
        return await read(work)

    monkeypatch.setattr(cluster.store, "read", counted)
    return done


async def test_all_watchers_of_all_sessions_cost_one_read_and_one_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("one")
        await cluster.submit("other")
        watched = WatchedSessions(cluster.store, cluster.store.database.clock)
        reads = counted_reads(cluster, monkeypatch)
        names = [SessionId(name) for name in ("one", "other") * 50]
        found = await asyncio.gather(*[watched.current(name) for name in names])
        assert len(reads) == 1
        assert len({id(one.event) for one in found}) == 2
        assert not found[0].is_final
        assert not found[0].is_large


async def test_the_event_has_the_view_and_the_version() -> None:
    async with StoredCluster.open() as cluster:
        record = await cluster.submit("one")
        watched = WatchedSessions(cluster.store, cluster.store.database.clock)
        name, number, data = (await watched.current(SessionId("one"))).event.decode().strip().split("\n")
        assert (name, number) == ("event: session", f"id: {record.version}")
        assert json.loads(data.removeprefix("data: "))["status"] == "pending"


async def test_a_session_that_is_gone_is_not_found() -> None:
    async with StoredCluster.open() as cluster:
        watched = WatchedSessions(cluster.store, cluster.store.database.clock)
        with pytest.raises(ObjectNotFound):
            await watched.current(SessionId("gone"))


async def test_only_so_many_large_sessions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_watch, "LARGE_KEPT_MAX", 2)
    async with StoredCluster.open() as cluster:
        names = [SessionId(name) for name in ("one", "two", "three")]
        for name in names:
            await cluster.submit(name, kernels=KERNELS_SHOWN + 1)
        watched = WatchedSessions(cluster.store, cluster.store.database.clock)
        for name in (*names[:2], names[0], names[2]):
            assert (await watched.current(name)).is_large
        assert set(watched._large) == {names[0], names[2]}, "the one that was read longest ago is forgotten"


async def test_no_watcher_waits_for_a_large_session_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoredCluster.open() as cluster:
        large = (await cluster.submit("large", kernels=KERNELS_SHOWN + 1)).session_id
        small = (await cluster.submit("small")).session_id
        watched = WatchedSessions(cluster.store, cluster.store.database.clock)
        assert (await watched.current(large)).is_large
        read, begun, go_on = cluster.store.read, asyncio.Event(), asyncio.Event()

        async def slow_at_first(work: Any) -> Any:
            if not begun.is_set():
                begun.set()
                await go_on.wait()
            return await read(work)

        monkeypatch.setattr(cluster.store, "read", slow_at_first)
        waiting = asyncio.ensure_future(watched.current(large))
        await begun.wait()
        assert not (await watched.current(small)).is_large
        assert not waiting.done()
        go_on.set()
        assert (await waiting).is_large

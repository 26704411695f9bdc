"""Sessions as their watchers see them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

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

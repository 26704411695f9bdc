"""The notifying store calls back after writes, and otherwise delegates."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_write_is_notified_and_a_read_is_not() -> None:
    async with StoredCluster.open() as cluster:
        notified: list[str] = []
        store = NotifyingStore(cluster.store, lambda: notified.append("written"))
        await cluster.submit("s1")

        async def read(unit: UnitOfWork) -> str:
            return (await unit.sessions.get(SessionId("s1"))).status

        assert await store.read(read) == "pending"
        assert notified == []
        assert await store.run(read) == "pending"
        assert notified == ["written"]


async def test_a_failed_write_is_notified_too() -> None:
    async with StoredCluster.open() as cluster:
        notified: list[str] = []
        store = NotifyingStore(cluster.store, lambda: notified.append("written"))
        with pytest.raises(ObjectNotFound):
            await store.run(lambda unit: unit.sessions.get(SessionId("nobody")))
        assert notified == ["written"]


async def test_the_outbox_and_the_pruning_are_those_of_the_store() -> None:
    async with StoredCluster.open() as cluster:
        store = NotifyingStore(cluster.store, lambda: None)
        assert store.outbox is cluster.store.outbox
        assert await store.prune(older_than_s=3600) == 0

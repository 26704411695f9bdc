"""A store that tells of its writes, and is otherwise the store."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.entrypoints.embedded.notifying_store import NotifyingStore
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_write_is_told_of_and_a_read_is_not() -> None:
    async with StoredCluster.open() as cluster:
        told: list[str] = []
        store = NotifyingStore(cluster.store, lambda: told.append("written"))
        await cluster.submit("s1")

        async def read(unit: UnitOfWork) -> str:
            return (await unit.sessions.get(SessionId("s1"))).status

        assert await store.read(read) == "pending"
        assert told == []
        assert await store.run(read) == "pending"
        assert told == ["written"]


async def test_a_write_that_fails_is_told_of_too() -> None:
    async with StoredCluster.open() as cluster:
        told: list[str] = []
        store = NotifyingStore(cluster.store, lambda: told.append("written"))
        with pytest.raises(ObjectNotFound):
            await store.run(lambda unit: unit.sessions.get(SessionId("nobody")))
        assert told == ["written"]


async def test_the_outbox_and_the_pruning_are_those_of_the_store() -> None:
    async with StoredCluster.open() as cluster:
        store = NotifyingStore(cluster.store, lambda: None)
        assert store.outbox is cluster.store.outbox
        assert await store.prune(older_than_s=3600) == 0

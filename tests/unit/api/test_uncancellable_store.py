"""Shields transactions from request cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sokovan.api.uncancellable_store import UncancellableStore
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.owners.tenancy import Domain
from sokovan.testing.stored_cluster import StoredCluster


async def test_it_behaves_like_the_store_below() -> None:
    async with StoredCluster.open() as cluster:
        steady = UncancellableStore(cluster.store)
        await steady.run(lambda unit: unit.catalog.put(Domain("north")))
        assert await steady.read(lambda unit: unit.catalog.get(Domain, "north")) == Domain("north")
        with pytest.raises(ObjectNotFound):
            await steady.read(lambda unit: unit.catalog.get(Domain, "south"))
        assert steady.outbox is cluster.store.outbox
        assert await steady.prune(older_than_s=3600) == 0


@pytest.mark.parametrize("kind", ["run", "read"])
async def test_a_cancelled_caller_does_not_cancel_its_transaction(kind: str) -> None:
    async with StoredCluster.open() as cluster:
        steady = UncancellableStore(cluster.store)
        begun, going_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work(unit: Any) -> None:
            begun.set()
            await going_on.wait()
            await unit.catalog.all(Domain)
            ended.set()

        caller = asyncio.create_task(getattr(steady, kind)(work))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not ended.is_set()
        going_on.set()
        await steady.settle()
        assert ended.is_set()
        assert await steady.read(lambda unit: unit.catalog.all(Domain)) == []


async def test_callers_who_leave_at_any_moment_leave_a_store_that_works() -> None:
    async with StoredCluster.open() as cluster:
        steady = UncancellableStore(cluster.store)
        for turns in range(40):
            caller = asyncio.create_task(steady.read(lambda unit: unit.catalog.all(Domain)))
            for _ in range(turns):
                await cluster.elapse(0)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
        await steady.run(lambda unit: unit.catalog.put(Domain("north")))
        assert await steady.read(lambda unit: unit.catalog.all(Domain)) == [Domain("north")]


async def test_an_error_of_a_cancelled_caller_is_not_logged() -> None:
    async with StoredCluster.open() as cluster:
        steady = UncancellableStore(cluster.store)
        caller = asyncio.create_task(steady.read(lambda unit: unit.catalog.get(Domain, "nothing")))
        await cluster.elapse(0)
        caller.cancel()
        await steady.settle()
        with pytest.raises(asyncio.CancelledError):
            await caller


async def test_closing_waits_for_what_was_begun() -> None:
    async with StoredCluster.open() as cluster:
        steady = UncancellableStore(cluster.store)
        reading = asyncio.create_task(steady.read(lambda unit: unit.catalog.all(Domain)))
        await cluster.elapse(0)
        await steady.close()
        assert await reading == []

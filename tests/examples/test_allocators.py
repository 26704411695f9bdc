"""The example allocator: found by entry point, chosen by name, and true to its word under a rollback."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sokovan.domain.errors import FencedOut
from sokovan.domain.events import Event, NoticeIssued
from sokovan.entrypoints.allocators import allocator_named
from sokovan.ports.allocation import AllocationContext
from sokovan.ports.storage import Fence
from sokovan.testing.stored_cluster import StoredCluster, assignment
from tests.examples.package import declared, importable


async def _notices(cluster: StoredCluster) -> list[NoticeIssued]:
    told: list[Event] = []

    async def publish(events: Sequence[Event]) -> None:
        told.extend(events)

    await cluster.store.outbox.publish_pending(publish, limit=100)
    return [event for event in told if isinstance(event, NoticeIssued)]


async def test_an_allocation_is_told_with_its_kernels_and_agents() -> None:
    async with StoredCluster.open() as cluster:
        with importable():
            allocator = allocator_named("notifying", cluster.store, installed=declared())
        await cluster.agent("a1")
        await cluster.agent("a2")
        await cluster.submit("train", kernels=3)

        await allocator.allocate_batch([assignment("train", "a2", "a1", "a2")], AllocationContext())

        (notice,) = await _notices(cluster)
        assert (notice.topic, notice.about) == ("allocation", "train")
        assert notice.body == {"kernels": "3", "agents": "a1 a2"}


async def test_an_allocation_that_does_not_commit_is_not_told() -> None:
    async with StoredCluster.open() as cluster:
        with importable():
            allocator = allocator_named("notifying", cluster.store, installed=declared())
        await cluster.agent("a1")
        await cluster.submit("train")
        late = AllocationContext(fence=Fence("schedule", 1))

        with pytest.raises(FencedOut):
            await allocator.allocate_batch([assignment("train", "a1")], late)

        assert await _notices(cluster) == []

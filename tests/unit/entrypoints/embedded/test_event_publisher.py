"""Committed events go from the outbox to the bus."""

from __future__ import annotations

from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.domain.events import AgentEnrolled
from sokovan.entrypoints.embedded.event_publisher import EVENTS_HINT, Publisher
from sokovan.testing.stored_cluster import StoredCluster


async def test_what_was_committed_is_published_once() -> None:
    async with StoredCluster.open() as cluster:
        bus = InProcessEventBus(cluster.store.database.clock)
        subscription = await bus.subscribe(group="test", consumer="one")
        publisher = Publisher(cluster.store.outbox, bus)
        await cluster.agent("a1")
        assert await publisher.publish() is False
        assert await publisher.publish() is False
        delivery = await subscription.receive(limit=10, wait_s=0)
        assert [type(event) for event in delivery.events] == [AgentEnrolled]
        await publisher.close()


async def test_it_runs_after_commits_and_at_intervals() -> None:
    async with StoredCluster.open() as cluster:
        [task] = Publisher(cluster.store.outbox, InProcessEventBus(cluster.store.database.clock)).tasks()
        assert task.hints == (EVENTS_HINT,)
        assert task.long_cycle_s <= 1

"""The event bus of one process, beyond the contract: bounds and exact times."""

import asyncio

import pytest

from sokovan.adapters.inprocess.events import Backlog, InProcessEventBus
from sokovan.ports.events import BusUnavailable, Delivery
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.events import notices


def test_a_backlog_holds_at_most_its_bound_whatever_happens_to_it() -> None:
    backlog = Backlog(size_max=3)
    backlog.add(notices(2))
    held = backlog.deliver("m1", limit=2, due_ms=10)
    backlog.add(notices(2, first=2))
    backlog.release_consumer("m1")
    assert list(held.values()) == notices(2)
    assert list(backlog.deliver("m2", limit=10, due_ms=10).values()) == notices(3, first=1)
    assert backlog.losses == 1


def test_one_publication_beyond_the_bound_is_one_loss() -> None:
    backlog = Backlog(size_max=3)
    backlog.add(notices(10))
    assert backlog.losses == 1
    assert list(backlog.deliver("m1", limit=10, due_ms=10).values()) == notices(3, first=7)


def test_what_comes_back_comes_in_its_old_order_and_first() -> None:
    backlog = Backlog(size_max=10)
    backlog.add(notices(5))
    backlog.deliver("m1", limit=1, due_ms=10)
    backlog.deliver("m2", limit=1, due_ms=20)
    backlog.deliver("m1", limit=1, due_ms=30)
    backlog.release_consumer("m1")
    assert list(backlog.deliver("m3", limit=3, due_ms=40).values()) == [notices(5)[at] for at in (0, 2, 3)]


def test_only_what_is_due_comes_back() -> None:
    backlog = Backlog(size_max=10)
    backlog.add(notices(2))
    backlog.deliver("m1", limit=1, due_ms=10)
    backlog.deliver("m1", limit=1, due_ms=20)
    assert backlog.next_due_ms() == 10
    backlog.release_overdue(19)
    assert list(backlog.deliver("m2", limit=9, due_ms=90).values()) == notices(1)


async def test_a_silent_consumer_is_given_up_at_its_time_while_another_waits() -> None:
    clock = VirtualClock()
    bus = InProcessEventBus(clock, redeliver_after_s=60)
    silent = await bus.subscribe(group="schedulers", consumer="m1")
    other_consumer = await bus.subscribe(group="schedulers", consumer="m2")
    await bus.publish(notices(1))
    await silent.receive(limit=1, wait_s=0)
    waiting = asyncio.create_task(other_consumer.receive(limit=1, wait_s=1000))
    await clock.advance(59.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert waiting.result().events == tuple(notices(1))


async def test_a_closed_place_gives_nothing_and_does_not_spin() -> None:
    clock = VirtualClock()
    bus = InProcessEventBus(clock)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await place.close()
    await bus.publish(notices(1))
    waiting = asyncio.create_task(place.receive(limit=1, wait_s=10))
    await clock.advance(9)
    assert not waiting.done()
    await clock.advance(1)
    assert waiting.result() == Delivery()


async def test_asking_for_no_event_does_not_wait() -> None:
    bus = InProcessEventBus(VirtualClock())
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(1))
    assert await place.receive(limit=0, wait_s=10) == Delivery()


async def test_a_closed_bus_takes_no_events() -> None:
    bus = InProcessEventBus(VirtualClock())
    await bus.close()
    with pytest.raises(BusUnavailable):
        await bus.publish(notices(1))

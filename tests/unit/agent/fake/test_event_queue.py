"""Acts happen when they are due, in their order."""

from __future__ import annotations

import asyncio
from functools import partial

from sokovan.agent.fake.event_queue import EventQueue
from sokovan.testing.clock import VirtualClock


def nothing() -> None:
    pass


async def test_acts_come_in_the_order_of_their_times_and_then_of_their_coming() -> None:
    clock, done = VirtualClock(), list[str]()
    queue = EventQueue(clock)
    for seconds, name in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        queue.after(seconds, partial(done.append, name))
    assert list(queue.due()) == []
    await clock.advance(1.0)
    for act in queue.due():
        act()
    assert done == ["a", "b"]
    await clock.advance(1.0)
    for act in queue.due():
        act()
    assert done == ["a", "b", "c"]


async def test_who_waits_is_woken_when_something_is_due_or_put_in_before_that() -> None:
    clock = VirtualClock()
    queue = EventQueue(clock)
    waiting = asyncio.ensure_future(queue.wait())
    await clock.advance(100)
    assert not waiting.done()
    queue.after(10.0, nothing)
    await clock.advance(0)
    assert waiting.done()

    waiting = asyncio.ensure_future(queue.wait())
    await clock.advance(1)
    queue.after(20.0, nothing)  # later than the next: no wake-up needed
    await clock.advance(1)
    assert not waiting.done()
    queue.after(1.0, nothing)
    await clock.advance(0)
    assert waiting.done()

    waiting = asyncio.ensure_future(queue.wait())
    await clock.advance(1)
    assert waiting.done()


async def test_a_wake_up_is_not_lost_without_a_waiter() -> None:
    clock = VirtualClock()
    queue = EventQueue(clock)
    queue.after(10.0, nothing)
    queue.wake()
    await asyncio.wait_for(queue.wait(), 60)
    waiting = asyncio.ensure_future(queue.wait())
    await clock.advance(1)
    assert not waiting.done()
    waiting.cancel()


async def test_acts_that_are_due_within_a_few_milliseconds_come_together() -> None:
    clock, done = VirtualClock(), list[int]()
    queue = EventQueue(clock)
    for number in range(1, 12):
        queue.after(number / 1000, partial(done.append, number))
    turns = 0
    while len(done) < 11:
        await clock.advance(0.001)
        acts = list(queue.due())
        turns += bool(acts)
        for act in acts:
            act()
    assert (done, turns) == (list(range(1, 12)), 2)

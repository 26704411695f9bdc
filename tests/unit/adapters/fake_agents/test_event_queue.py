"""Acts happen when they are due, in their order."""

from __future__ import annotations

import asyncio
from functools import partial

from sokovan.adapters.fake_agents.event_queue import EventQueue
from sokovan.testing.clock import VirtualClock


def nothing() -> None:
    pass


async def test_acts_come_in_the_order_of_their_times_and_then_of_their_coming() -> None:
    clock, done = VirtualClock(), list[str]()
    timetable = EventQueue(clock)
    for seconds, name in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        timetable.after(seconds, partial(done.append, name))
    assert list(timetable.due()) == []
    await clock.advance(1.0)
    for act in timetable.due():
        act()
    assert done == ["a", "b"]
    await clock.advance(1.0)
    for act in timetable.due():
        act()
    assert done == ["a", "b", "c"]


async def test_who_waits_is_woken_when_something_is_due_or_put_in_before_that() -> None:
    clock = VirtualClock()
    timetable = EventQueue(clock)
    waiting = asyncio.ensure_future(timetable.wait())
    await clock.advance(100)
    assert not waiting.done()
    timetable.after(10.0, nothing)
    await clock.advance(0)
    assert waiting.done()

    waiting = asyncio.ensure_future(timetable.wait())
    await clock.advance(1)
    timetable.after(20.0, nothing)  # later than the next: nobody needs to know
    await clock.advance(1)
    assert not waiting.done()
    timetable.after(1.0, nothing)
    await clock.advance(0)
    assert waiting.done()

    waiting = asyncio.ensure_future(timetable.wait())
    await clock.advance(1)
    assert waiting.done()


async def test_a_nudge_is_not_lost_while_nobody_waits() -> None:
    clock = VirtualClock()
    timetable = EventQueue(clock)
    timetable.after(10.0, nothing)
    timetable.nudge()
    await asyncio.wait_for(timetable.wait(), 5)
    waiting = asyncio.ensure_future(timetable.wait())
    await clock.advance(1)
    assert not waiting.done()
    waiting.cancel()

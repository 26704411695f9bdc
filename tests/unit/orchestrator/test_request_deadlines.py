"""Deadlines of many concurrent requests."""

import asyncio

import pytest

from sokovan.orchestrator.handler import DeadlinePassed, WorkCancelled
from sokovan.orchestrator.request_deadlines import RequestDeadlines
from sokovan.testing.clock import VirtualClock


async def value() -> str:
    return "done"


def requested(deadlines: RequestDeadlines, door: asyncio.Event) -> asyncio.Task[bool]:
    return asyncio.ensure_future(deadlines.awaited(door.wait()))


async def test_each_request_has_its_own_deadline() -> None:
    clock, door = VirtualClock(), asyncio.Event()
    deadlines = RequestDeadlines(clock, 10)
    first = requested(deadlines, door)
    await clock.advance(6)
    second = requested(deadlines, door)
    await clock.advance(5)
    assert first.done()
    assert not second.done()
    with pytest.raises(DeadlinePassed):
        await first
    door.set()
    assert await second


async def test_thousands_of_requests_share_one_timer() -> None:
    clock, door = VirtualClock(), asyncio.Event()
    deadlines = RequestDeadlines(clock, 10)
    before = len(asyncio.all_tasks())
    tasks = [requested(deadlines, door) for _ in range(1_000)]
    await clock.advance(0)
    assert len(asyncio.all_tasks()) == before + 1_001
    door.set()
    assert all(await asyncio.gather(*tasks))
    await clock.advance(0)
    assert len(asyncio.all_tasks()) == before


async def test_a_result_in_time_leaves_nothing_behind() -> None:
    deadlines = RequestDeadlines(VirtualClock(), 10)
    assert await asyncio.ensure_future(deadlines.awaited(value())) == "done"
    assert await asyncio.ensure_future(deadlines.awaited(value())) == "done"


async def test_a_cancelled_caller_stays_cancelled_and_work_that_cancels_itself_has_failed() -> None:
    clock, door = VirtualClock(), asyncio.Event()
    deadlines = RequestDeadlines(clock, 10)

    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    cancelled = requested(deadlines, door)
    await clock.advance(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    with pytest.raises(WorkCancelled):
        await asyncio.ensure_future(deadlines.awaited(cancels_itself()))
    await clock.advance(0)
    assert len(asyncio.all_tasks()) == 1

"""A wait ends by the signal or by the Clock, whichever is first."""

import asyncio

import pytest

from sokovan.adapters.inprocess.waiting import set_within
from sokovan.testing.clock import VirtualClock


async def test_a_signal_that_is_set_needs_no_wait() -> None:
    signal = asyncio.Event()
    signal.set()
    assert await set_within(signal, 0, clock=VirtualClock())


async def test_no_time_means_no_wait() -> None:
    assert not await set_within(asyncio.Event(), 0, clock=VirtualClock())
    assert not await set_within(asyncio.Event(), -1, clock=VirtualClock())


async def test_the_wait_ends_by_the_clock() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(set_within(asyncio.Event(), 10, clock=clock))
    await clock.advance(9.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert waiting.done()
    assert not waiting.result()


async def test_the_wait_ends_by_the_signal_and_leaves_no_sleeper() -> None:
    clock, signal = VirtualClock(), asyncio.Event()
    waiting = asyncio.create_task(set_within(signal, 10, clock=clock))
    await clock.advance(1)
    signal.set()
    assert await waiting
    assert clock.sleeping == 0


async def test_a_wait_that_is_given_up_leaves_no_sleeper() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(set_within(asyncio.Event(), 10, clock=clock))
    await clock.advance(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.sleeping == 0

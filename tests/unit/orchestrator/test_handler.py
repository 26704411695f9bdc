"""Work that gets so much time and no more."""

import asyncio

import pytest

from sokovan.orchestrator.handler import DeadlinePassed, within
from sokovan.testing.clock import VirtualClock


async def test_work_that_is_quick_gives_its_result() -> None:
    clock = VirtualClock()

    async def quick() -> int:
        await clock.sleep(0)
        return 7

    assert await within(quick(), 1.0, clock=clock) == 7


async def test_work_that_hangs_is_cancelled() -> None:
    clock, ended = VirtualClock(), asyncio.Event()

    async def hanging() -> None:
        try:
            await clock.sleep(3600)
        finally:
            ended.set()

    waiting = asyncio.ensure_future(within(hanging(), 2.0, clock=clock))
    await clock.advance(2.5)
    with pytest.raises(DeadlinePassed):
        await waiting
    assert ended.is_set()


async def test_what_work_raises_comes_through() -> None:
    async def failing() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await within(failing(), 1.0, clock=VirtualClock())

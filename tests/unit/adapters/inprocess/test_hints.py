"""Hints of one process, beyond the contract: exact times and no leftovers."""

import asyncio

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.testing.clock import VirtualClock


async def test_a_wait_lasts_exactly_its_time() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(InProcessHints(clock).wait(["schedule"], timeout_s=10))
    await clock.advance(9.999)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()
    assert not waiting.result()


async def test_a_hint_ends_the_wait_in_the_same_instant() -> None:
    clock = VirtualClock()
    hints = InProcessHints(clock)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=10))
    await clock.advance(3)
    await hints.set("schedule")
    assert await waiting
    assert clock.monotonic_ms() == 3000


async def test_who_is_woken_too_late_waits_out_the_rest() -> None:
    clock = VirtualClock()
    hints = InProcessHints(clock)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=10))
    await clock.advance(3)
    await hints.set("schedule")
    await hints.take("schedule")
    await clock.advance(6.9)
    assert not waiting.done()
    await clock.advance(0.1)
    assert not waiting.result()
    assert clock.sleeping == 0

"""The long look for garbage comes by the clock, and takes a small part of the time."""

from __future__ import annotations

import asyncio
import gc

from sokovan.entrypoints.embedded.gc_tuning import EVERY_S, OLDEST, SHARE, collect_periodically, deferred_gc
from sokovan.testing.clock import VirtualClock


def test_the_oldest_objects_are_left_to_the_clock_only_as_long_as_it_lasts() -> None:
    before = gc.get_threshold()
    with deferred_gc():
        assert gc.get_threshold()[2] == OLDEST
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


class PausedClock(VirtualClock):
    """Time that also passes while nobody sleeps."""

    paused_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.paused_ms


async def test_a_look_that_takes_long_comes_less_often() -> None:
    clock, looks, took_ms = PausedClock(), [], 600

    def look() -> None:
        looks.append(clock.monotonic_ms())
        clock.paused_ms += took_ms

    task = asyncio.create_task(collect_periodically(clock, collect=look))
    await clock.advance(EVERY_S)
    assert len(looks) == 1
    await clock.advance(took_ms / 1000 / SHARE - 1)
    assert len(looks) == 1
    await clock.advance(2)
    assert len(looks) == 2
    task.cancel()


async def test_a_quick_look_comes_every_minute() -> None:
    clock, looks = VirtualClock(), []
    task = asyncio.create_task(collect_periodically(clock, collect=lambda: looks.append(1)))
    for _ in range(3):
        await clock.advance(EVERY_S)
    assert len(looks) == 3
    task.cancel()

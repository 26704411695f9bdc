"""Garbage collection that keeps its pauses apart.

Python looks through every object when their number has grown by a quarter. With
ten thousand sessions that stops the process for a fifth of a second, and a crowd of
submissions brought it on every other second. Here the long look comes by the clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sokovan.ports.environment import Clock

# Young objects are looked at as often as is cheap; so seldom do the oldest come by themselves that the clock is first.
YOUNG, MIDDLE, OLDEST = 10_000, 20, 1_000_000
EVERY_S = 60.0
# The pauses take this part of the time at most, however long each of them becomes.
SHARE = 0.005


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Leave the oldest objects to `collect_by_the_clock`, as long as this lasts.

    What is there already, modules for the most part, is not looked at any more.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLDEST)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def collect_by_the_clock(clock: Clock, *, collect: Callable[[], object] = gc.collect) -> None:
    """Look through all objects now and then, until cancelled."""
    pause_s = EVERY_S
    while True:
        await clock.sleep(pause_s)
        began_ms = clock.monotonic_ms()
        collect()
        pause_s = max(EVERY_S, (clock.monotonic_ms() - began_ms) / 1000 / SHARE)

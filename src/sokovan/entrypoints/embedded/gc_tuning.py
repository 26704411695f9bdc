"""Garbage collection with full collections at fixed intervals.

Python runs a full collection when the number of objects has grown by a quarter. With
ten thousand sessions that stops the process for 0.2 s, and a burst of submissions
triggered it every other second. Here full collections run on a timer, and wait while the
process is busy: its users would wait for them.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sokovan.ports.environment import Clock

# Young generations are collected as often as is cheap; the threshold of the oldest is never reached before the timer.
YOUNG, MIDDLE, OLDEST = 10_000, 20, 1_000_000
EVERY_S = 60.0
# A collection that is due waits for an interval in which the process used less than this part of a core.
QUIET_S = 1.0
BUSY_SHARE = 0.25
POSTPONED_S_MAX = 240.0
# Upper bound on the share of time spent in full collections.
SHARE = 0.005


@contextmanager
def deferred_gc() -> Iterator[None]:
    """Leave full collections to `collect_periodically` inside the block.

    Existing objects, mostly modules, are frozen and no longer scanned.
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


def collect_and_trim() -> None:
    """Run a full collection, and return free memory to the system if possible.

    The C library keeps what was freed: after two gangs of 6,000 kernels 30 and 21 MB, returned in about 10 ms.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc only
    if trim is not None:
        trim(0)


def processor_s() -> float:
    """Processor time of this process, in seconds."""
    return time.process_time()  # noqa: TID251  # how busy it is, not what time it is


async def collect_periodically(
    clock: Clock, *, collect: Callable[[], object] = collect_and_trim, used_s: Callable[[], float] = processor_s
) -> None:
    """Run full collections at intervals, while it is not busy, until cancelled."""
    pause_s = EVERY_S
    while True:
        await clock.sleep(pause_s)
        await _until_quiet(clock, used_s)
        began_ms = clock.monotonic_ms()
        collect()
        pause_s = max(EVERY_S, (clock.monotonic_ms() - began_ms) / 1000 / SHARE)


async def _until_quiet(clock: Clock, used_s: Callable[[], float]) -> None:
    """Wait until the process has not been busy for a moment."""
    began_ms, is_busy = clock.monotonic_ms(), True
    while is_busy and clock.monotonic_ms() - began_ms < POSTPONED_S_MAX * 1000:
        before_ms, before_s = clock.monotonic_ms(), used_s()
        await clock.sleep(QUIET_S)
        passed_s = (clock.monotonic_ms() - before_ms) / 1000
        is_busy = used_s() - before_s >= BUSY_SHARE * passed_s

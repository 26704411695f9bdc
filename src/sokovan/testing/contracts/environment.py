"""Contracts of `ports.environment`: Clock and IdSource.

A check of CLOCK_CHECKS takes a running clock; one of ID_CHECKS takes `open_ids`,
which creates another source, as another process would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

from sokovan.domain.ids import is_name
from sokovan.ports.environment import Clock, IdSource

OpenIds = Callable[[], IdSource]
ClockCheck = Callable[[Clock], Awaitable[None]]
IdCheck = Callable[[OpenIds], Awaitable[None]]

MANY = 5_000


async def check_time_is_whole_milliseconds(clock: Clock) -> None:
    """Both clocks return integers, and the time is after 1970."""
    for name, value in (("now_ms", clock.now_ms()), ("monotonic_ms", clock.monotonic_ms())):
        if type(value) is not int or value < 0:
            raise AssertionError(f"{name} gave {value!r}, expected whole milliseconds")


async def check_the_monotonic_clock_never_goes_back(clock: Clock) -> None:
    """Of two readings the second is never smaller."""
    readings = []
    for number in range(200):
        readings.append(clock.monotonic_ms())
        if number % 50 == 0:
            await clock.sleep(0)
    falls = [(before, after) for before, after in pairwise(readings) if after < before]
    if falls:
        raise AssertionError(f"the monotonic clock went back: {falls}")


async def check_a_sleep_lasts_as_long_as_requested(clock: Clock) -> None:
    """At least that much time has passed on the same clock."""
    for seconds in (0.001, 0.02):
        before = clock.monotonic_ms()
        await clock.sleep(seconds)
        # A millisecond is lost in rounding the two readings.
        if clock.monotonic_ms() - before < seconds * 1000 - 1:
            raise AssertionError(f"a sleep of {seconds} s took {clock.monotonic_ms() - before} ms")


async def check_a_sleep_of_zero_yields_to_other_tasks(clock: Clock) -> None:
    """A loop that sleeps 0 does not block other tasks."""
    ran = asyncio.Event()
    other = asyncio.ensure_future(_set(ran))
    for _ in range(10):
        await clock.sleep(0)
    other.cancel()
    if not ran.is_set():
        raise AssertionError("ten sleeps of 0 did not let another task run")


async def check_shorter_sleeps_wake_first(clock: Clock) -> None:
    """Sleeps run concurrently and end in the order of their lengths."""
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(*(sleeper(seconds) for seconds in (0.15, 0.0, 0.05)))
    if woken != [0.0, 0.05, 0.15]:
        raise AssertionError(f"sleepers woke in the order {woken}")


async def check_an_id_is_its_prefix_a_hyphen_and_more(open_ids: OpenIds) -> None:
    """The prefix names the kind; the whole is a valid name."""
    for prefix in ("s", "kernel", "a1"):
        made = open_ids().new(prefix)
        if not made.startswith(f"{prefix}-") or len(made) <= len(prefix) + 1 or not is_name(made):
            raise AssertionError(f"an id with prefix {prefix!r} came out as {made!r}")


async def check_ids_are_unique(open_ids: OpenIds) -> None:
    """Within one source, and across two concurrent sources."""
    first, second = open_ids(), open_ids()
    made = [source.new("x") for _ in range(MANY) for source in (first, second)]
    if len(set(made)) != len(made):
        raise AssertionError(f"of {len(made)} ids {len(made) - len(set(made))} are duplicates")


async def check_ids_sort_by_creation_time(open_ids: OpenIds) -> None:
    """Ids of one source increase and have equal lengths."""
    source = open_ids()
    made = [source.new("x") for _ in range(MANY)]
    if made != sorted(made):
        raise AssertionError("ids of one source do not sort by creation time")
    if len({len(one) for one in made}) != 1:
        raise AssertionError("ids of one prefix differ in length, so that they do not sort as texts")


async def _set(event: asyncio.Event) -> None:
    event.set()


CLOCK_CHECKS: tuple[ClockCheck, ...] = (
    check_time_is_whole_milliseconds,
    check_the_monotonic_clock_never_goes_back,
    check_a_sleep_lasts_as_long_as_requested,
    check_a_sleep_of_zero_yields_to_other_tasks,
    check_shorter_sleeps_wake_first,
)
ID_CHECKS: tuple[IdCheck, ...] = (
    check_an_id_is_its_prefix_a_hyphen_and_more,
    check_ids_are_unique,
    check_ids_sort_by_creation_time,
)
CHECKS: tuple[ClockCheck | IdCheck, ...] = (*CLOCK_CHECKS, *ID_CHECKS)

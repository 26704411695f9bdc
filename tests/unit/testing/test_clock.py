"""Virtual time passes only when it is advanced."""

import asyncio

import pytest

from sokovan.testing.clock import VirtualClock, outcome, until


async def test_time_stands_still_by_itself() -> None:
    clock = VirtualClock(now_ms=5000)
    await clock.sleep(0)
    assert clock.now_ms() == 5000
    assert clock.monotonic_ms() == 0


async def test_advancing_moves_both_times() -> None:
    clock = VirtualClock(now_ms=5000)
    await clock.advance(1.5)
    assert clock.now_ms() == 6500
    assert clock.monotonic_ms() == 1500


async def test_the_time_of_day_jumps_and_durations_do_not() -> None:
    clock = VirtualClock(now_ms=5000)
    clock.jump(-3)
    assert clock.now_ms() == 2000
    assert clock.monotonic_ms() == 0


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic_ms()))

    tasks = [asyncio.create_task(sleeper(*what)) for what in (("late", 3), ("early", 1), ("second", 2), ("also", 2))]
    await clock.advance(10)
    await asyncio.gather(*tasks)
    assert woken == [("early", 1000), ("second", 2000), ("also", 2000), ("late", 3000)]
    assert clock.monotonic_ms() == 10_000


async def test_a_sleeper_that_sleeps_again_wakes_again_within_one_advance() -> None:
    clock = VirtualClock()
    beats: list[int] = []

    async def heart() -> None:
        while True:
            await clock.sleep(1)
            beats.append(clock.monotonic_ms())

    task = asyncio.create_task(heart())
    await clock.advance(3.5)
    task.cancel()
    assert beats == [1000, 2000, 3000]


async def test_the_shortest_sleep_still_needs_time_to_pass() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1e-9))
    await clock.advance(0)
    assert not task.done()
    await clock.advance(0.001)
    assert task.done()


async def test_a_cancelled_sleeper_is_not_counted() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    assert clock.sleeping == 1
    task.cancel()
    await clock.advance(2)
    assert clock.sleeping == 0
    assert task.cancelled()


@pytest.mark.slow
async def test_an_outcome_is_waited_for_as_long_as_it_takes() -> None:
    clock = VirtualClock()

    async def work() -> str:
        await clock.sleep(30)
        return "done"

    assert await outcome(work(), elapse=clock.advance) == "done"


@pytest.mark.slow
async def test_an_outcome_that_never_comes_fails() -> None:
    clock = VirtualClock()
    with pytest.raises(AssertionError, match="not done after 5 s"):
        await outcome(clock.sleep(60), elapse=clock.advance, limit_s=5)


async def test_a_condition_is_waited_for_and_one_that_never_holds_fails() -> None:
    clock = VirtualClock()

    async def is_late() -> bool:
        return clock.monotonic_ms() > 2000

    await until(is_late, elapse=clock.advance)

    async def is_never() -> bool:
        return False

    with pytest.raises(AssertionError, match="within 1 s"):
        await until(is_never, elapse=clock.advance, limit_s=1)

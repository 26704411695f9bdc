"""Writers of one file take turns, across tasks, loops and threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.turns import _BY_FILE, Turns, turns_of
from sokovan.testing.clock import until

CLOCK = SystemClock()


def in_threads(*works: Callable[[], Awaitable[None]]) -> list[threading.Thread]:
    """Each work in a thread and loop of its own."""

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    threads = [threading.Thread(target=lambda work=work: asyncio.run(run(work))) for work in works]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()


async def queued(turns: Turns, count: int) -> None:
    """Wait until so many wait."""

    async def holds() -> bool:
        return len(turns._waiting) == count

    await until(holds, elapse=CLOCK.sleep)


def test_two_loops_in_two_threads_are_never_inside_together() -> None:
    turns, inside, overlaps, rounds = Turns(), list[int](), list[int](), [0, 0]

    async def writer(number: int) -> None:
        for _ in range(300):
            async with turns.turn():
                inside.append(number)
                await CLOCK.sleep(0)
                overlaps.extend(inside[1:])
                inside.remove(number)
                rounds[number] += 1

    joined(in_threads(*[partial(writer, number) for number in (0, 1)]))
    assert rounds == [300, 300]
    assert overlaps == []


def test_whoever_came_first_is_served_first_from_any_thread() -> None:
    turns, served, hold = Turns(), list[int](), threading.Event()
    begun = [threading.Event() for _ in range(4)]

    async def holder() -> None:
        async with turns.turn():
            begun[0].set()
            await asyncio.to_thread(hold.wait, 20)

    async def waiter(number: int) -> None:
        task = asyncio.ensure_future(_append(turns, served, number))
        await queued(turns, number)
        begun[number].set()
        await task

    threads = in_threads(holder)
    assert begun[0].wait(20)
    for number in (1, 2, 3):
        threads += in_threads(partial(waiter, number))
        assert begun[number].wait(20)
    hold.set()
    joined(threads)
    assert served == [1, 2, 3]


async def _append(turns: Turns, served: list[int], number: int) -> None:
    async with turns.turn():
        served.append(number)


async def test_a_waiter_that_is_cancelled_gives_up_its_turn() -> None:
    turns, served = Turns(), list[int]()
    async with turns.turn():
        tasks = [asyncio.ensure_future(_append(turns, served, number)) for number in range(3)]
        await queued(turns, 3)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert len(turns._waiting) == 2
    await asyncio.gather(tasks[0], tasks[2])
    assert served == [0, 2]


async def test_a_turn_that_comes_with_the_cancellation_goes_to_the_next() -> None:
    turns, served = Turns(), list[int]()
    async with turns.turn():
        tasks = [asyncio.ensure_future(_append(turns, served, number)) for number in range(2)]
        await queued(turns, 2)
    # The first has the turn by now, and has not run yet.
    assert len(turns._waiting) == 1
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == [1]
    await _append(turns, served, 2)
    assert served == [1, 2]


async def test_a_writer_that_fails_passes_the_turn_on() -> None:
    turns, served = Turns(), list[int]()

    async def fails() -> None:
        async with turns.turn():
            raise LookupError

    with pytest.raises(LookupError):
        await fails()
    await _append(turns, served, 1)
    assert served == [1]


async def test_a_waiter_whose_loop_is_gone_stands_in_nobodys_way() -> None:
    turns, served = Turns(), list[int]()
    gone = asyncio.new_event_loop()
    async with turns.turn():
        dead = gone.create_future()
        turns._waiting.append(dead)
        gone.close()
        task = asyncio.ensure_future(_append(turns, served, 1))
        await queued(turns, 2)
    await task
    assert served == [1]


def test_a_file_has_one_queue_however_its_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    turns = turns_of(str(tmp_path / "state.db"))
    assert turns_of("state.db") is turns
    assert turns_of(f"{os.curdir}/x/../state.db") is turns
    assert turns_of("link.db") is turns
    assert turns_of("other.db") is not turns


def test_a_queue_that_nobody_uses_is_forgotten(tmp_path: Path) -> None:
    path = str(tmp_path.resolve() / "state.db")
    kept = turns_of(path)
    gc.collect()
    assert path in _BY_FILE
    del kept
    gc.collect()
    assert path not in _BY_FILE

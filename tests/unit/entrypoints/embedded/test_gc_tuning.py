"""Full collections run on a timer, and take a small share of the time."""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from types import SimpleNamespace

import pytest

from sokovan.entrypoints.embedded import gc_tuning
from sokovan.entrypoints.embedded.gc_tuning import (
    BUSY_SHARE,
    EVERY_S,
    OLDEST,
    POSTPONED_S_MAX,
    QUIET_S,
    SHARE,
    collect_and_trim,
    collect_periodically,
    deferred_gc,
    processor_s,
)
from sokovan.testing.clock import VirtualClock


@pytest.mark.slow
def test_the_oldest_objects_are_left_to_the_clock_only_as_long_as_it_lasts() -> None:
    before = gc.get_threshold()
    with deferred_gc():
        assert gc.get_threshold()[2] == OLDEST
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


class PausedClock(VirtualClock):
    """Time that also passes without sleepers."""

    paused_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.paused_ms


async def test_long_collections_run_less_often() -> None:
    clock, collections, took_ms = PausedClock(), [], 600

    def collect() -> None:
        collections.append(clock.monotonic_ms())
        clock.paused_ms += took_ms

    task = asyncio.create_task(collect_periodically(clock, collect=collect, used_s=lambda: 0.0))
    await clock.advance(EVERY_S)
    await clock.advance(QUIET_S)
    assert len(collections) == 1
    await clock.advance(took_ms / 1000 / SHARE - 1)
    assert len(collections) == 1
    await clock.advance(1)
    await clock.advance(QUIET_S)
    assert len(collections) == 2
    task.cancel()


async def test_short_collections_run_every_minute() -> None:
    clock, collections = VirtualClock(), list[int]()
    collect = partial(collections.append, 1)
    task = asyncio.create_task(collect_periodically(clock, collect=collect, used_s=lambda: 0.0))
    for _ in range(3):
        await clock.advance(EVERY_S)
        await clock.advance(QUIET_S)
    assert len(collections) == 3
    task.cancel()


async def test_a_collection_waits_while_the_process_is_busy_but_not_for_ever() -> None:
    clock, collections, busy = VirtualClock(), list[int](), True

    def used_s() -> float:
        return clock.monotonic_ms() / 1000 * BUSY_SHARE if busy else 0.0

    collect = partial(collections.append, 1)
    task = asyncio.create_task(collect_periodically(clock, collect=collect, used_s=used_s))
    await clock.advance(EVERY_S)
    for _ in range(5):
        await clock.advance(QUIET_S)
    assert collections == []
    busy = False
    await clock.advance(QUIET_S)
    assert collections == [1]
    busy = True
    await clock.advance(EVERY_S)
    for _ in range(round(POSTPONED_S_MAX / QUIET_S)):
        assert collections == [1]
        await clock.advance(QUIET_S)
    assert collections == [1, 1]
    task.cancel()


def test_work_counts_as_processor_time() -> None:
    before = processor_s()
    while processor_s() == before:
        sum(range(1000))
    assert processor_s() > before


@pytest.mark.parametrize("name", ["malloc_trim", "of_another_library"])
def test_a_collection_returns_free_memory_where_the_library_can(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    calls: list[str] = []
    library = SimpleNamespace(**{name: lambda _keep: calls.append("trim")})
    monkeypatch.setattr(gc_tuning, "ctypes", SimpleNamespace(CDLL=lambda _name: library))
    monkeypatch.setattr(gc_tuning, "gc", SimpleNamespace(collect=lambda: calls.append("collect")))
    collect_and_trim()
    assert calls == ["collect", "trim"][: 2 if name == "malloc_trim" else 1]

"""The operating system's clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock


def test_the_time_of_day_is_that_of_a_file_written_now(tmp_path: Path) -> None:
    (tmp_path / "now").touch()
    assert abs(SystemClock().now_ms() - (tmp_path / "now").stat().st_mtime_ns // 1_000_000) < 60_000


async def test_durations_are_measured_by_the_clock_of_the_event_loop() -> None:
    loop = asyncio.get_running_loop()
    before, now, after = loop.time(), SystemClock().monotonic_ms(), loop.time()
    assert int(before * 1000) <= now <= after * 1000


@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_a_sleep_lasts_at_least_as_long_as_asked(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    await SystemClock().sleep(seconds)
    # The loop may wake one clock tick early.
    assert loop.time() - before >= seconds - 0.001

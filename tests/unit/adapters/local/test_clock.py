"""The operating system's clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SteadyClock, SystemClock
from sokovan.testing.contracts.leases import taken
from sokovan.testing.stored_cluster import StoredCluster


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


class SetClock:
    """The clocks of a machine whose time of day is set."""

    def __init__(self) -> None:
        self.wall_ns, self.passed_ns = 1_000 * 10**9, 0

    def pass_time(self, seconds: int) -> None:
        self.wall_ns += seconds * 10**9
        self.passed_ns += seconds * 10**9

    def steady(self) -> SteadyClock:
        return SteadyClock(wall_ns=lambda: self.wall_ns, passed_ns=lambda: self.passed_ns)


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_a_steady_clock_does_not_jump_with_the_time_of_the_machine(jump_s: int) -> None:
    machine = SetClock()
    clock = machine.steady()
    machine.wall_ns += jump_s * 10**9
    assert clock.now_ms() == 1_000_000
    machine.pass_time(10)
    assert clock.now_ms() == 1_000_000 + (11_000 if jump_s > 0 else 9_000)


def test_a_steady_clock_follows_the_time_of_the_machine_in_the_end() -> None:
    machine = SetClock()
    clock = machine.steady()
    for jump_s in (60, -60):
        machine.wall_ns += jump_s * 10**9
        for _ in range(11):
            machine.pass_time(60)
            clock.now_ms()
        assert clock.now_ms() == machine.wall_ns // 10**6


@pytest.mark.slow
async def test_pending_times_and_leases_outlast_a_jump_of_the_time_of_the_machine() -> None:
    machine = SetClock()
    async with StoredCluster.open(clock=machine.steady()) as cluster:
        lease = await taken(cluster, "scheduler", ttl_s=10)
        machine.wall_ns += 3600 * 10**9
        assert await cluster.leases.current("scheduler") == lease
        machine.pass_time(10)
        assert await cluster.leases.current("scheduler") is None

"""Idle times: what counts as activity, and what is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping

import pytest

from sokovan.adapters.process import idle_times
from sokovan.adapters.process.idle_times import SAMPLE_MS, IdleTimes, cpu_ticks
from sokovan.testing.clock import VirtualClock

SECOND = os.sysconf("SC_CLK_TCK")


class Measured:
    """Idle times of kernel `k` with a given CPU use."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.ticks, self.samples = VirtualClock(), 0, 0
        self.times = IdleTimes(self.clock)
        monkeypatch.setattr(idle_times, "cpu_ticks", self._cpu_ticks)

    def _cpu_ticks(self, shims: Collection[int]) -> Mapping[int, int]:
        self.samples += 1
        return dict.fromkeys(shims, self.ticks)

    async def idle_after(self, seconds: int, *, cpu_s: int = 0) -> int:
        """The idle time after so many seconds, in which the kernel used CPU."""
        self.ticks += cpu_s * SECOND
        await self.clock.advance(seconds)
        self.times.sample()
        return self.times.idle_s("k", 7)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """A kernel that was measured once."""
    found = Measured(monkeypatch)
    found.times.idle_s("k", 7)
    found.times.sample()
    found.times.idle_s("k", 7)
    return found


async def test_a_kernel_without_cpu_use_is_idle_since_it_was_first_measured(measured: Measured) -> None:
    assert [await measured.idle_after(10), await measured.idle_after(10)] == [10, 20]


async def test_cpu_use_of_a_hundredth_of_a_core_counts_as_activity(measured: Measured) -> None:
    assert await measured.idle_after(100) == 100
    assert await measured.idle_after(100, cpu_s=1) == 0
    assert await measured.idle_after(1000, cpu_s=1) == 1000


async def test_a_kernel_is_active_while_a_command_runs_in_it(measured: Measured) -> None:
    assert await measured.idle_after(60) == 60
    with measured.times.command("k"), measured.times.command("k"):
        assert await measured.idle_after(60) == 0
    assert await measured.idle_after(60) == 60


async def test_what_was_not_measured_is_not_idle(measured: Measured) -> None:
    await measured.clock.advance(3600)
    assert measured.times.idle_s("k", 7) == 0


async def test_another_shim_of_the_same_kernel_begins_anew(measured: Measured) -> None:
    assert await measured.idle_after(60) == 60
    assert measured.times.idle_s("k", 8) == 0


async def test_a_machine_without_such_kernels_is_not_measured_and_others_not_too_often(
    measured: Measured,
) -> None:
    before = measured.samples
    measured.times.sample()
    assert measured.samples == before
    for _ in range(3):  # nothing lists the kernel any more
        await measured.clock.advance(SAMPLE_MS / 1000)
        measured.times.sample()
    assert measured.samples == before + 1


@pytest.mark.slow
def test_the_cpu_time_of_a_whole_tree_of_processes_is_counted() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\n"
    script = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\nprint('done', flush=True)\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        found = cpu_ticks({process.pid, 2**30})
        process.communicate(b"\n")
    assert found.keys() == {process.pid}
    assert found[process.pid] >= 0.2 * SECOND * 0.9

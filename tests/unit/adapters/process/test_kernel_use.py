"""Use of kernels from control groups, and from the processes below a shim."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.adapters.process.kernel_use import PASS_MS, ProcessPasses, cpu_ms_of, memory_of, processes_of
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.processes import Process, look_up
from sokovan.testing.clock import VirtualClock


def groups(version: int, folder: Path, files: dict[str, str]) -> ControlGroups:
    for name, text in files.items():
        (folder / name).write_text(text)
    return ControlGroups(version, {"cpu": str(folder), "memory": str(folder)})


def test_control_groups_of_version_2_count_cpu_memory_and_processes(tmp_path: Path) -> None:
    made = groups(
        2,
        tmp_path,
        {
            "cpu.stat": "usage_usec 1234567\nuser_usec 1\n",
            "memory.current": "9000\n",
            "memory.stat": "anon 1\ninactive_file 4000\n",
            "cgroup.procs": "11\n12\n",
        },
    )
    assert (cpu_ms_of(made), memory_of(made), processes_of(made)) == (1234, 5000, 2)


def test_control_groups_of_version_1_count_the_same(tmp_path: Path) -> None:
    made = groups(
        1,
        tmp_path,
        {
            "cpuacct.usage": "1234567890\n",
            "memory.usage_in_bytes": "9000\n",
            "memory.stat": "inactive_file 1\ntotal_inactive_file 4000\n",
            "cgroup.procs": "11\n",
        },
    )
    assert (cpu_ms_of(made), memory_of(made), processes_of(made)) == (1234, 5000, 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_control_groups_do_not_count_is_unknown(tmp_path: Path, version: int) -> None:
    for made in (ControlGroups(version, {}), groups(version, tmp_path, {})):
        assert (cpu_ms_of(made), memory_of(made), processes_of(made)) == (None, None, None)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def own() -> Process:
    found = look_up(os.getpid())
    assert found is not None
    return found


async def test_processes_below_a_shim_are_summed_up_once_for_all_within_a_time(child: subprocess.Popen[bytes]) -> None:
    clock = VirtualClock()
    passes = ProcessPasses(clock)
    found = passes.use_below(own())
    assert found.processes is not None
    assert found.processes >= 1
    assert found.memory_bytes is not None
    assert found.memory_bytes > 0
    child.kill()
    child.wait()
    again = passes.use_below(own())
    assert (again.processes, again.sampled_ms) == (found.processes, found.sampled_ms), "the table was read again"
    await clock.advance(PASS_MS / 1000)
    later = passes.use_below(own())
    assert later.processes == found.processes - 1
    assert later.sampled_ms > found.sampled_ms


def test_a_shim_that_is_not_in_the_last_pass_is_looked_for(child: subprocess.Popen[bytes]) -> None:
    passes = ProcessPasses(VirtualClock())
    passes.use_below(own())
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as later:
        shim = look_up(later.pid)
        assert shim is not None
        assert passes.use_below(shim).processes == 0
        again = passes.use_below(own()).processes or 0
        later.kill()
    assert again >= 2, f"{child.pid} and {later.pid} are not both counted"

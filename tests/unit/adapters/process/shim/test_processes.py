"""Processes are known by number and start, never by number alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.shim import processes

CHILD = "import os, sys; sys.stdin.read()"
FAMILY = "import os, sys; os.fork(); os.fork(); print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def found(pid: int) -> processes.Process:
    process = processes.look_up(pid)
    assert process is not None
    return process


def test_a_process_is_looked_up_with_its_parent_and_start(child: subprocess.Popen[bytes]) -> None:
    process = found(child.pid)
    assert (process.parent, process.alive) == (os.getpid(), True)
    assert processes.is_alive(child.pid, process.start)
    assert not processes.is_alive(child.pid, process.start + 1)


def test_a_name_with_brackets_and_spaces_does_not_confuse() -> None:
    script = "import sys; open('/proc/self/comm', 'w').write('a) R 1 (b'); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert found(process.pid).parent == os.getpid()
        process.kill()


def test_a_zombie_does_not_live(child: subprocess.Popen[bytes]) -> None:
    process = found(child.pid)
    assert processes.send(process, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert found(child.pid).state == "Z"
    assert not processes.is_alive(process.pid, process.start)
    assert not processes.send(process, signal.SIGKILL)


def test_a_process_whose_first_thread_ended_lives_while_others_do() -> None:
    fields = ["Z", "1", "0", "0"] + ["0"] * 13 + ["2", "0", "77", "0", "0"]
    assert processes.Process(1, fields).alive
    fields[17] = "1"
    assert not processes.Process(1, fields).alive


def test_a_signal_for_a_predecessor_does_not_reach_its_successor(child: subprocess.Popen[bytes]) -> None:
    other = found(child.pid)
    other.start -= 1
    assert not processes.send(other, signal.SIGKILL)
    assert child.poll() is None


def test_an_unknown_pid_or_file_is_not_found() -> None:
    assert processes.look_up(2**22 + 1) is None
    assert processes.read_text("/proc/there/is/nothing") == ""


def _killed_family() -> list[processes.Process]:
    """The children and grandchildren of a process, after they were killed."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        below = processes.descendants(process.pid)
        processes.kill_below(process.pid)
        assert found(process.pid).alive
        process.kill()
        process.communicate()
    return below


async def test_everything_below_a_process_is_killed_and_itself_is_not() -> None:
    left = _killed_family()
    assert len(left) == 3
    for _ in range(1000):  # a killed process takes a moment to disappear
        left = [one for one in left if processes.is_alive(one.pid, one.start)]
        if not left:
            break
        await SystemClock().sleep(0.01)
    assert not left


def test_a_machine_knows_which_run_of_it_this_is() -> None:
    assert len(processes.boot_id()) == 36

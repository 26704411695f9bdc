"""Kernels that take too much: processes, memory, disk, output."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sokovan.domain.ids import KernelId, SessionId
from sokovan.wire.frames import CreateKernel
from tests.acceptance.embedded import SMALL, Embedded
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.kernels import needs_root, programs

PROCESSES_MAX = 60
DISK_MAX = 32 << 20
LOG_BYTES_MAX = CreateKernel(KernelId("k"), 1, SessionId("s"), "host", ("true",)).log_bytes_max
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
# Ends by itself after some time, whatever happens to the test.
FORKS = """
import os, signal, time
signal.alarm(240)
print("up", flush=True)
refused = False
while True:
    try:
        if os.fork() == 0:
            signal.alarm(240)
    except OSError:
        if not refused:
            print("no more", flush=True)
        refused = True
        time.sleep(0.05)
"""
SPEAKS = "import sys, time\nfor _ in range(64):\n    sys.stdout.write('x' * 65536)\n    sys.stdout.flush()\n"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server whose kernels may have a few processes only, so that no test has to make thousands."""
    server = Embedded(tmp_path_factory.mktemp("limits"), timings=FastTimings(processes_max=PROCESSES_MAX))
    with ended_well(server):
        server.start("--set", f"outputs.kernel_disk_max={DISK_MAX}")
        yield server


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Embedded]:
    """A server whose kernels have one megabyte of disk between them."""
    server = Embedded(tmp_path / "up")
    server.kernels.mkdir(parents=True)
    server.data.chmod(0o700)
    mount = ["/usr/bin/env", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(server.kernels)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        with ended_well(server):
            server.start()
            yield server
    finally:
        subprocess.run(["/usr/bin/env", "umount", "--lazy", str(server.kernels)], check=True)


def needs(server: Embedded, controller: str) -> None:
    """Skip where nothing on this machine limits what is to be limited."""
    if "limits by cgroup" not in server.said or controller not in server.said:
        pytest.skip(f"nothing on this machine limits the {controller} of a kernel")


def test_a_fork_bomb_fills_its_own_kernel_and_nothing_else(limited: Embedded) -> None:
    needs(limited, "pids")
    good = limited.python(SLEEPS)
    bomb = limited.python(FORKS, resources={"cpu": 0.5, "mem": "512MiB"}, stop_grace=1)
    limited.says(bomb, "no more")
    limited.says(good, "up")
    assert len(programs(limited.kernels)) <= PROCESSES_MAX + 1
    assert limited.settles(limited.python("print('still there')"))["result"] == "success"
    limited.end(bomb)
    limited.settles(bomb)
    assert limited.session(good)["status"] == "running"
    assert len(programs(limited.kernels)) == 1
    limited.end(good)


def test_a_kernel_that_takes_more_memory_than_it_asked_for_is_ended_and_says_why(limited: Embedded) -> None:
    needs(limited, "memory")
    session = limited.python("x = bytearray(512 << 20); print(len(x))", resources=SMALL)
    ended = limited.settles(session)
    assert (ended["exit_code"], ended["result"], ended["reason"]) == (137, "failure", "out-of-memory")
    assert ended["reason_detail"].startswith("kernel 0 ran out of memory: its limit was ")
    assert limited.output(session) == ""


def test_a_kernel_without_a_memory_request_gets_its_share_of_the_machine(limited: Embedded) -> None:
    done = limited.cli("run", "--", "python", "-c", "x = bytearray(300 << 20); print(len(x))")
    assert (done.returncode, done.stdout) == (0, f"{300 << 20}\n")
    assert "(mem by default; --mem changes it)" in done.stderr
    [agent] = limited.cli_json("agent", "ls")
    name = done.stderr.split()[0]
    slots = limited.session(name)["kernels"][0]["slots"]
    assert slots["mem"] == agent["slots"]["mem"] * 1000 // agent["slots"]["cpu"] >> 20 << 20


def test_processor_time_beyond_what_was_asked_for_is_not_given(limited: Embedded) -> None:
    needs(limited, "cpu")
    script = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    session = limited.python(script, resources={"cpu": 0.3, "mem": "64MiB"})
    limited.settles(session)
    assert float(limited.output(session)) < 0.8


@needs_root
def test_a_full_disk_costs_kernels_their_logs_and_nothing_else(small_disk: Embedded) -> None:
    lives = small_disk.python(SLEEPS)
    small_disk.says(lives, "up")
    assert small_disk.settles(small_disk.python(f"{SPEAKS}raise SystemExit(5)"))["exit_code"] == 5
    refused = small_disk.settles(small_disk.python("pass", retry={"attempts": 1}))
    assert refused["reason"] == "creation-refused"
    assert "No space left on device" in refused["reason_detail"]
    assert small_disk.session(lives)["status"] == "running"
    small_disk.end(lives)
    assert small_disk.settles(lives)["exit_code"] == 143


def test_a_kernel_that_writes_more_than_its_disk_space_is_ended_and_says_why(limited: Embedded) -> None:
    script = "import time\nfile = open('big', 'wb', 0)\nwhile True: file.write(bytes(1 << 20)); time.sleep(0.01)"
    session = limited.python(script, workdir="")
    ended = limited.settles(session)
    assert (ended["exit_code"], ended["result"], ended["reason"]) == (137, "failure", "disk-limit")
    assert ended["reason_detail"] == f"kernel 0 was ended: its folders have more than {DISK_MAX} bytes"
    assert "DISK_LIMIT_REACHED" in limited.cli("why", session).stdout
    assert "disk-limit" in limited.cli("session", "history", session).stdout


def test_output_beyond_its_limit_drops_the_oldest_and_keeps_the_newest(limited: Embedded) -> None:
    lines = 80_000
    script = f"import sys\nfor n in range({lines}): sys.stdout.write(f'{{n:01023d}}\\n')"
    session = limited.python(script, resources={"cpu": 1, "mem": "64MiB"})
    assert limited.settles(session)["result"] == "success"
    [log] = limited.kernels.glob(f"kernels/{limited.session(session)['kernels'][0]['id']}-1/log")
    assert sum(file.stat().st_size for file in log.iterdir()) <= LOG_BYTES_MAX
    done = limited.cli("logs", session, "--tail", "2")
    assert [int(line) for line in done.stdout.split()] == [lines - 2, lines - 1]

"""Kernels that misbehave, agents and shims that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.isolation import confinement
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.state_files import read_record
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState, RuntimeFailure
from tests.kernels import (
    SLEEP,
    ended,
    kill,
    launch,
    output,
    place,
    relatives,
    runtime_in,
    said,
    seen,
    until,
)

REPOSITORY = Path(__file__).parents[2]
# After its grace a kernel is gone at once; a loaded machine may take longer to show it.
SLACK_S = 60.0

# Two generations away from the kernel, in a session of its own, deaf, and without any variable that would betray it.
HIDES = """
import os, signal, sys, time
def hide():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    open("hidden", "w").write(str(os.getpid()))
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.execve(sys.executable, ["x", "-I", "-c", "import time; time.sleep(600)"], VARIABLES)
hide()
while not (os.path.exists("hidden") and open("hidden").read()):
    time.sleep(0.001)
print("up", flush=True)
"""
# Ends by itself after some minutes, also if the test is killed.
FORKS = """
import os, signal, time
signal.alarm(240)
end = time.monotonic() + 240
print("up", flush=True)
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            signal.alarm(240)
    except OSError:
        time.sleep(0.01)
"""
AGENT = """
import asyncio, os, sys
from pathlib import Path
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.launch import starter
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.domain.ids import KernelId, SessionId
from sokovan.wire.frames import CreateKernel

async def main():
    root, dies, *names = sys.argv[1:]
    if dies == "dies":
        starter.FORK_SERVER.run_shim = lambda *_: os._exit(9)
    runtime = ProcessRuntime(Path(root), SystemClock(), bubblewrap="")
    script = "import sys, time\\nfor n in range(100000):\\n    print(n, flush=True)\\n    time.sleep(0.01)"
    for name in names:
        await runtime.create(CreateKernel(KernelId(name), 1, SessionId("s"), "host", ("python", "-c", script)))
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with runtime_in(root) as ready:
        yield ready


@pytest.fixture
def without_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "probe_hierarchies", Hierarchies)


def agent(root: Path, *names: str, dies: bool = False) -> subprocess.Popen[str]:
    """Another process with a runtime on the same root, which starts these kernels."""
    arguments = [sys.executable, "-c", AGENT, str(root), "dies" if dies else "lives", *names]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)


def state(root: Path, name: str) -> dict[str, int]:
    with opened(place(root, name)) as folder:
        record = read_record(folder, "state.json")
    assert record is not None
    return record


def hidden_process(root: Path, name: str) -> processes.Process:
    found = processes.look_up(int((place(root, name) / "work" / "hidden").read_text()))
    assert found is not None
    assert found.alive
    return found


def is_gone(process: processes.Process) -> bool:
    return not processes.is_alive(process.pid, process.start)


@pytest.mark.parametrize("groups", ["with_control_groups", "without_control_groups"])
async def test_a_daemon_of_a_daemon_is_gone_when_its_kernel_is_stopped(
    groups: str, root: Path, request: pytest.FixtureRequest
) -> None:
    if groups == "without_control_groups":
        request.getfixturevalue(groups)
    async with runtime_in(root) as runtime:
        await runtime.create(launch("k", HIDES.replace("VARIABLES", "{}") + "time.sleep(600)"))
        await said(runtime, "k", b"up\n")
        hidden = hidden_process(root, "k")
        await runtime.stop(KernelId("k"), 1, grace_s=0.2)
        over = await ended(runtime, "k", limit_s=0.2 + SLACK_S)
        assert is_gone(hidden)
        assert over.exit_code == 143


@pytest.mark.usefixtures("without_control_groups")
async def test_what_a_kernel_leaves_behind_ends_with_it(runtime: ProcessRuntime, root: Path) -> None:
    await runtime.create(launch("k", HIDES.replace("VARIABLES", "{}") + "raise SystemExit(5)"))
    over = await ended(runtime, "k")
    assert over.exit_code == 5
    pid = int((place(root, "k") / "work" / "hidden").read_text())
    found = processes.look_up(pid)
    assert found is None or not found.alive or found.start > state(root, "k")["pid_start"] + 10_000


@pytest.mark.parametrize("variables", ["os.environ", "{}"])
async def test_a_killed_shim_takes_its_kernel_with_it_before_the_end_is_reported(
    variables: str, runtime: ProcessRuntime, root: Path
) -> None:
    await runtime.create(launch("k", HIDES.replace("VARIABLES", variables) + "time.sleep(600)"))
    await said(runtime, "k", b"up\n")
    hidden, record = hidden_process(root, "k"), state(root, "k")
    kill(record["shim_pid"])
    over = await ended(runtime, "k")
    assert is_gone(hidden)
    assert not processes.is_alive(record["pid"], record["pid_start"])
    assert (over.reason, over.exit_code) == ("shim lost", 137)
    assert relatives(root) == []
    assert await seen(runtime, "k") == over


@pytest.mark.usefixtures("without_control_groups")
@pytest.mark.parametrize("variables", ["os.environ", "{}"])
async def test_what_hides_from_a_killed_shim_is_found_where_there_are_no_control_groups(
    variables: str, runtime: ProcessRuntime, root: Path
) -> None:
    await runtime.create(launch("k", HIDES.replace("VARIABLES", variables) + "time.sleep(600)"))
    await said(runtime, "k", b"up\n")
    hidden = hidden_process(root, "k")
    kill(state(root, "k")["shim_pid"])
    assert (await ended(runtime, "k")).reason == "shim lost"
    assert is_gone(hidden)


async def test_a_stop_of_a_kernel_without_its_shim_ends_what_is_left(runtime: ProcessRuntime, root: Path) -> None:
    await runtime.create(launch("k", SLEEP))
    kill(state(root, "k")["shim_pid"])
    await runtime.stop(KernelId("k"), 1, grace_s=600)
    assert (await ended(runtime, "k")).reason == "shim lost"


async def test_a_shim_ignores_termination_signals(runtime: ProcessRuntime, root: Path) -> None:
    await runtime.create(launch("k", SLEEP))
    record = state(root, "k")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(record["shim_pid"], number)
    async with runtime.execute(KernelId("k"), 1, ("python", "-c", "print(1)"), terminal=False) as command:
        assert [piece async for piece in command.output()] == [b"1\n"]
    assert (await seen(runtime, "k")).state is KernelState.RUNNING


async def test_a_fork_bomb_ends_only_its_own_kernel(runtime: ProcessRuntime, root: Path) -> None:
    if "pids" not in (await runtime.confinement()).hierarchies.controllers:
        pytest.skip("nothing on this machine limits the number of processes of a kernel")
    await runtime.create(launch("good", SLEEP))
    await runtime.create(launch("bomb", FORKS, processes_max=40))

    async def is_full() -> bool:
        return len(relatives(root)) >= 40

    await until(is_full)
    assert len(relatives(root)) <= 42  # the limit, the good kernel, and one that is just being counted
    await runtime.stop(KernelId("bomb"), 1, grace_s=0.1)
    await ended(runtime, "bomb", limit_s=SLACK_S)
    assert (await seen(runtime, "good")).state is KernelState.RUNNING
    assert len(relatives(root)) == 1


async def test_orphans_that_die_are_not_left_as_zombies(runtime: ProcessRuntime, root: Path) -> None:
    storm = "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        os.fork()\n        os._exit(0)\n"
    reap = "while True:\n    try:\n        os.wait()\n    except ChildProcessError:\n        break\n"
    await runtime.create(launch("k", storm + reap + "print('up', flush=True); time.sleep(600)"))
    await said(runtime, "k", b"up\n")
    shim = state(root, "k")["shim_pid"]

    async def no_zombies() -> bool:
        return not [one for one in processes.all_processes() if one.parent == shim and not one.alive]

    await until(no_zombies, limit_s=60)


async def test_kernels_outlive_their_agent_and_are_adopted_whole(root: Path) -> None:
    async with runtime_in(root) as runtime:
        with agent(root, "a", "b", "c") as first:
            try:
                assert first.stdout is not None
                assert first.stdout.readline() == "ready\n"
            finally:
                first.kill()
        before = {name: state(root, name) for name in "abc"}
        assert [(one.kernel_id, one.state) for one in await runtime.observe()] == [
            (name, KernelState.RUNNING) for name in "abc"
        ]
        for name in "abc":
            spoken = await output(runtime, name)
            await said(runtime, name, b"\n%d\n" % (spoken.count(b"\n") + 20))
            lines = (await output(runtime, name)).decode().splitlines()
            assert lines == [str(number) for number in range(len(lines))], "output is missing or repeated"
        await runtime.create(launch("a", "print('again')"))
        assert {name: state(root, name)["pid"] for name in "abc"} == {name: before[name]["pid"] for name in "abc"}
        os.kill(before["a"]["pid"], signal.SIGUSR1)
        assert (await ended(runtime, "a")).exit_code == 128 + signal.SIGUSR1
        await runtime.stop(KernelId("b"), 1, grace_s=SLACK_S)
        assert (await ended(runtime, "b")).exit_code == 143
        assert (await seen(runtime, "c")).state is KernelState.RUNNING


async def test_an_agent_that_dies_before_the_start_leaves_nothing_and_the_next_one_may_start_it(root: Path) -> None:
    with agent(root, "k", dies=True) as first:
        assert first.wait() == 9
    assert place(root, "k").exists()
    async with runtime_in(root) as runtime:
        assert await runtime.observe() == []
        assert not place(root, "k").exists()
        await runtime.create(launch("k", SLEEP))
        assert (await seen(runtime, "k")).state is KernelState.RUNNING


async def test_a_creation_that_was_cut_short_is_completed_by_the_next_one(root: Path) -> None:
    with agent(root, "k", dies=True) as first:
        assert first.wait() == 9
    async with runtime_in(root) as runtime:
        await runtime.create(launch("k", SLEEP))
        assert (await seen(runtime, "k")).state is KernelState.RUNNING


async def test_of_many_agents_that_create_the_same_kernel_one_starts_it(root: Path) -> None:
    async with runtime_in(root) as runtime:
        agents = [agent(root, "k") for _ in range(4)]
        try:
            for one in agents:
                assert one.stdout is not None
                assert one.stdout.readline() == "ready\n"
        finally:
            for one in agents:
                one.kill()
                one.communicate()

        async def one_runs() -> bool:  # `python` may be a script that starts others on its way
            return relatives(root) == [state(root, "k")["pid"]]

        await until(one_runs)
        assert (await seen(runtime, "k")).state is KernelState.RUNNING


async def test_a_forgotten_kernel_is_refused_by_the_next_agent_too(root: Path) -> None:
    async with runtime_in(root) as runtime:
        await runtime.create(launch("k", "pass"))
        await ended(runtime, "k")
        await runtime.forget(KernelId("k"), 1)
    async with runtime_in(root) as runtime:
        with pytest.raises(RuntimeFailure, match="forgotten"):
            await runtime.create(launch("k", "pass"))
        assert await runtime.observe() == []


def readable_by_all(record: dict[str, int]) -> list[bytes]:
    """The parts of a kernel and its shim that other processes can read."""
    files = (f"{record['pid']}/cmdline", f"{record['shim_pid']}/cmdline", f"{record['shim_pid']}/environ")
    return [Path("/proc", file).read_bytes() for file in files]


async def test_nothing_secret_stays_on_disk_or_in_arguments(
    runtime: ProcessRuntime, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "of-the-agent")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of-the-agent")
    script = "import os, time; print(sorted(os.environ), flush=True); time.sleep(600)"
    await runtime.create(launch("k", script, environment={"TOKEN": "of-the-user"}))
    names = (await said(runtime, "k", b"]\n")).decode()
    assert "DATABASE_PASSWORD" not in names
    assert "LD_LIBRARY_PATH" not in names
    kept = [file.read_bytes() for file in place(root, "k").rglob("*") if file.is_file()]
    for text in (*kept, *readable_by_all(state(root, "k"))):
        assert b"of-the-user" not in text
        assert b"of-the-agent" not in text


async def test_a_runtime_leaves_no_control_groups_behind(runtime: ProcessRuntime, root: Path) -> None:
    hierarchies = (await runtime.confinement()).hierarchies
    await runtime.create(launch("k", "pass", slots={"mem": 1 << 28, "cpu": 500}))
    await ended(runtime, "k")
    own = marks_of(KernelId("k"), 1, root=root)[RUNTIME]
    left = [group for parent in hierarchies.parents.values() for group in parent.glob(f"sokovan/{own}-*")]
    assert left == []


async def test_the_loop_is_not_held_up_while_kernels_start_and_end(runtime: ProcessRuntime) -> None:
    # Counted in the turns of a thread, of a millisecond or more: a busy machine holds up both. What
    # the loop itself computes holds up the thread as well, and is measured apart.
    turns, over, longest, longest_s = 0, threading.Event(), 0, 0.0

    def take_turns() -> None:
        nonlocal turns
        while not over.wait(0.001):
            turns += 1

    beside = threading.Thread(target=take_turns)
    beside.start()
    starter = asyncio.gather(*(runtime.create(launch(f"k{number}", SLEEP)) for number in range(6)))
    while not starter.done():
        before, before_s = turns, time.thread_time()
        await SystemClock().sleep(0.001)
        longest, longest_s = max(longest, turns - before), max(longest_s, time.thread_time() - before_s)
    over.set()
    beside.join()
    await starter
    assert longest < 500
    assert longest_s < 0.5


async def test_a_kernel_whose_record_was_lost_is_killed_before_its_end_is_reported(
    runtime: ProcessRuntime, root: Path
) -> None:
    await runtime.create(launch("k", SLEEP))
    (place(root, "k") / "state.json").unlink()
    found = await seen(runtime, "k")
    assert found.state is KernelState.EXITED
    assert relatives(root) == []

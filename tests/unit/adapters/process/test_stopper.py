"""A kernel can be stopped even after it has tampered with its shim."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process import stopper
from sokovan.adapters.process.files.disk_usage import DiskUsage
from sokovan.adapters.process.observer import SHIM_LOST
from sokovan.adapters.process.orphan_processes import OrphanProcesses, traces_of
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim_client import ShimSilent, request_stop
from sokovan.adapters.process.stopper import RemainsEnder
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import DISK_LIMIT, KernelState
from tests.kernels import SLEEP, ended, launch, place, relatives, runtime_in, said, seen, until

# Not before its start is over, which other tests cover.
STOPS_ITS_SHIM = """
import os, signal, time
while not os.path.exists("go"):
    time.sleep(0.01)
while True:
    os.kill(os.getppid(), signal.SIGSTOP)
    {then}
"""


# Asked so often, a shim answers that was slow.
SLOW = 4


def shim_of(root: Path, name: str) -> int:
    return int(json.loads((place(root, name) / "state.json").read_text())["shim_pid"])


async def stopped_shim(runtime: ProcessRuntime, root: Path, script: str) -> int:
    """The shim of a kernel that has stopped it."""
    await runtime.create(launch("k", script))
    (place(root, "k") / "work" / "go").touch()
    pid = shim_of(root, "k")

    async def is_stopped() -> bool:
        found = processes.look_up(pid)
        return found is not None and found.state == "T"

    await until(is_stopped)
    return pid


async def test_a_shim_that_its_kernel_has_stopped_is_woken_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopper, "ANSWER_S", 1.0)
    async with runtime_in(tmp_path) as runtime:
        await stopped_shim(runtime, tmp_path, STOPS_ITS_SHIM.format(then="time.sleep(600)"))
        await runtime.stop(KernelId("k"), 1, grace_s=0)
        found = await ended(runtime, "k", limit_s=60)
        assert found.reason.startswith("signal "), "its shim has seen it end"
        assert relatives(tmp_path) == []


async def test_a_shim_that_is_only_slow_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = 0

    def slow(*args: Any, **named: Any) -> None:
        nonlocal times
        times += 1
        if times < SLOW:
            raise ShimSilent("not yet")
        request_stop(*args, **named)

    monkeypatch.setattr(stopper, "request_stop", slow)
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        await said(runtime, "k", b"up\n")
        await runtime.stop(KernelId("k"), 1, grace_s=0)
        found = await ended(runtime, "k", limit_s=60)
        assert found.reason.startswith("signal "), "its shim has seen it end"
        assert times == SLOW


async def test_a_shim_that_its_kernel_stops_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopper, "ANSWER_S", 0.3)
    async with runtime_in(tmp_path) as runtime:
        shim = await stopped_shim(runtime, tmp_path, STOPS_ITS_SHIM.format(then="pass"))

        async def is_over() -> bool:
            await runtime.stop(KernelId("k"), 1, grace_s=30)
            return (await seen(runtime, "k")).state is KernelState.EXITED

        await until(is_over, limit_s=180)
        found = processes.look_up(shim)
        assert found is None or not found.alive
        assert relatives(tmp_path) == []


async def test_a_kernel_whose_socket_is_gone_is_ended_with_its_shim(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        await said(runtime, "k", b"up\n")
        [socket] = [path for path in place(tmp_path, "k").iterdir() if path.is_socket()]
        socket.unlink()
        await runtime.stop(KernelId("k"), 1, grace_s=30)
        found = await ended(runtime, "k")  # a busy machine may take longer than a stop waits for it
        assert found.reason == SHIM_LOST
        assert relatives(tmp_path) == []


async def test_a_kernel_that_has_ended_or_never_was_needs_no_shim(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.stop(KernelId("none"), 1, grace_s=0)
        await runtime.create(launch("k", "pass"))
        before = await ended(runtime, "k")
        await runtime.stop(KernelId("k"), 1, grace_s=0)
        assert await seen(runtime, "k") == before


async def end_remains(root: Path, traces: str) -> str:
    return await RemainsEnder(root).end_remains(KernelId("k"), 1, traces)


async def test_a_process_is_ended_by_its_traces(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "input()", stdin=asyncio.subprocess.PIPE)
    found = processes.look_up(child.pid)
    assert found is not None
    state = {"boot": processes.boot_id(), "shim_pid": found.pid, "shim_start": found.start}
    assert await end_remains(tmp_path, traces_of({}, state)) == ""
    assert await child.wait() == -9


async def test_nothing_is_left_after_a_reboot_or_of_a_kernel_without_processes(tmp_path: Path) -> None:
    own = processes.look_up(1)
    assert own is not None
    assert await end_remains(tmp_path, traces_of({}, {"boot": "another", "shim_pid": 1, "shim_start": own.start})) == ""
    assert await end_remains(tmp_path, "") == ""


async def test_what_cannot_be_killed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrphanProcesses, "end", lambda _self: [processes.look_up(1)])

    assert await end_remains(tmp_path, "") == "does not die: pid 1"


async def test_a_kernel_that_the_agent_ends_by_itself_says_why(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        DiskUsage.of_kernels(tmp_path, SystemClock(), lambda _line: None).end("k-1", f"{DISK_LIMIT}: too much")
        found = await ended(runtime, "k")
        assert (found.exit_code, found.reason) == (137, "disk-limit: too much")

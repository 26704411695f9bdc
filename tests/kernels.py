"""Kernels for tests: real processes in a folder of the test's own, and none left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.launch.environment import KERNEL_ID, RUNTIME, marks_of
from sokovan.adapters.process.layout import folder_name
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import processes
from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import KernelRuntime, KernelState, Observation
from sokovan.wire.frames import CreateKernel

LIMIT_S = 180.0
SLEEP = "import time; print('up', flush=True); time.sleep(600)"

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the superuser")


def own_start() -> int:
    """The start time of this process, as an address file of a server has it."""
    own = processes.look_up(os.getpid())
    assert own is not None
    return own.start


def launch(name: str, *command: str, **changes: Any) -> CreateKernel:
    """A kernel of the machine's own image; a single argument is a Python script."""
    # Not `python`, which may be a script that starts other programs on its way.
    program = sys.executable if changes.get("image", "host") == "host" else "python"
    argument = (program, "-c", *command) if len(command) == 1 else command
    attempt = changes.pop("attempt", 1)
    return CreateKernel(KernelId(name), attempt, SessionId("s"), changes.pop("image", "host"), argument, **changes)


def place(root: Path, name: str, attempt: int = 1) -> Path:
    """The folder of a kernel."""
    return root / "kernels" / folder_name(KernelId(name), attempt)


async def until(holds: Callable[[], Awaitable[object]], *, limit_s: float = LIMIT_S) -> None:
    """Wait until `holds`; AssertionError after `limit_s`."""
    clock = SystemClock()
    deadline = clock.monotonic_ms() + limit_s * 1000
    while not await holds():
        assert clock.monotonic_ms() < deadline, f"did not come true within {limit_s:.0f} s"
        await clock.sleep(0.01)


async def seen(runtime: ProcessRuntime, name: str) -> Observation:
    """The one kernel of this name."""
    [found] = [one for one in await runtime.observe() if one.kernel_id == name]
    return found


async def ended(runtime: ProcessRuntime, name: str, *, limit_s: float = LIMIT_S) -> Observation:
    """The kernel once it has ended."""

    async def is_over() -> bool:
        return (await seen(runtime, name)).state is KernelState.EXITED

    await until(is_over, limit_s=limit_s)
    return await seen(runtime, name)


async def output(runtime: ProcessRuntime, name: str) -> bytes:
    """The stored output of a kernel, from its start."""
    return (await runtime.read_log(KernelId(name), 1, offset=0, limit=1 << 20)).data


async def said(runtime: ProcessRuntime, name: str, text: bytes) -> bytes:
    """The output of a kernel once it has said `text`."""

    async def has_said() -> bool:
        return text in await output(runtime, name)

    await until(has_said)
    return await output(runtime, name)


def relatives(root: Path) -> list[int]:
    """Every living process that bears the mark of this root, those of sandboxes too."""
    return list(_marked(root))


def programs(root: Path) -> list[int]:
    """Every living process of this root that is not a sandbox."""
    return [pid for pid in _marked(root) if _program(pid) != "bwrap"]


def kernels_alive(root: Path) -> set[str]:
    """The kernels of this root with a living process."""
    return set(_marked(root).values())


def _marked(root: Path) -> dict[int, str]:
    """The processes that bear the mark of this root, each with its kernel."""
    mark = f"{RUNTIME}={marks_of(KernelId('k'), 1, root=root)[RUNTIME]}".encode()
    kernel = f"{KERNEL_ID}=".encode()
    found = {}
    for process in processes.all_processes():
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if process.alive and mark in variables:
                found[process.pid] = next(one for one in variables if one.startswith(kernel))[len(kernel) :].decode()
    return found


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def kill(pid: int) -> None:
    """End a process that a test started."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def runtime_in(root: Path, **options: Any) -> AsyncIterator[ProcessRuntime]:
    """A runtime without a sandbox, unless `bubblewrap` says so; its kernels end with it."""
    accounts = options.pop("accounts", range(0))
    runtime = ProcessRuntime(root, SystemClock(), **{"bubblewrap": "", **options})
    runtime.accounts = accounts
    try:
        yield runtime
    finally:
        await end_all(runtime)
        left = relatives(root)
        for pid in left:
            kill(pid)
        assert left == [], "processes of kernels are left"


async def end_all(runtime: KernelRuntime) -> None:
    """End every kernel, and wait until nothing of any is left."""

    async def all_over() -> bool:
        found = [one for one in await runtime.observe() if one.state is not KernelState.EXITED]
        for one in found:
            await runtime.stop(one.kernel_id, one.attempt, grace_s=0)
        return not found

    await until(all_over)
    for one in await runtime.observe():
        await runtime.forget(one.kernel_id, one.attempt)

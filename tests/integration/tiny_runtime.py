"""A runtime for tests: each kernel is a real process that outlives the agent, and nothing holds it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import (
    ImageUnavailable,
    KernelExecution,
    KernelState,
    KernelUse,
    LogPart,
    Observation,
    RuntimeFailure,
)
from sokovan.wire.frames import CreateKernel

# Starts the command, waits for it, and writes its exit code to a file.
SHIM = """
import os, subprocess, sys
folder, *command = sys.argv[1:]
with open(f"{folder}/log", "wb") as log:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
with open(f"{folder}/pid.new", "w") as file:
    file.write(str(child.pid))
os.rename(f"{folder}/pid.new", f"{folder}/pid")
code = child.wait()
with open(f"{folder}/exit.new", "w") as file:
    file.write(str(code if code >= 0 else 128 - code))
os.rename(f"{folder}/exit.new", f"{folder}/exit")
"""
READY_IMAGES = frozenset({"python"})


class TinyRuntime:
    """KernelRuntime on plain processes below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kernels = root / "kernels"
        self._kernels.mkdir(parents=True, exist_ok=True)
        self._clock = SystemClock()
        self._tasks: set[asyncio.Task[object]] = set()
        self.pull_may_end = asyncio.Event()
        self.stops_nothing = False

    async def has_image(self, image: str) -> bool:
        if image.startswith("unknown"):
            raise ImageUnavailable(image=image, problem="it is unknown")
        return image in READY_IMAGES or (self._root / f"image-{image}").exists()

    async def prepare_image(self, image: str, progress: Callable[[str], None]) -> None:
        progress("half of it is here")
        await self.pull_may_end.wait()
        if image.startswith("broken"):
            raise ImageUnavailable(image=image, problem="the disk is full")
        (self._root / f"image-{image}").touch()

    async def create(self, launch: CreateKernel) -> str:
        if not await self.has_image(launch.image):
            raise ImageUnavailable(image=launch.image, problem="it is not here")
        folder = self._folder(launch.kernel_id, launch.attempt)
        try:
            folder.mkdir()
        except FileExistsError:
            return ""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", SHIM, str(folder), *launch.command, start_new_session=True
        )
        self._beside(process.wait())
        return ""

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        del traces
        return f"nothing is known of {kernel_id} ({attempt})"

    async def stop(self, kernel_id: KernelId, attempt: int, *, grace_s: float, notice: str = "") -> None:
        del notice
        if not self.stops_nothing:
            self._beside(self._end(self._folder(kernel_id, attempt), grace_s))

    async def _end(self, folder: Path, grace_s: float) -> None:
        for number, timeout_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 60.0)):
            until_ms = self._clock.monotonic_ms() + timeout_s * 1000
            sent = False
            while not self._is_over(folder):
                sent = sent or self._signalled(folder, number)
                if self._clock.monotonic_ms() >= until_ms:
                    break
                await self._clock.sleep(0.005)

    @staticmethod
    def _is_over(folder: Path) -> bool:
        return not folder.exists() or (folder / "exit").exists()

    @staticmethod
    def _signalled(folder: Path, number: signal.Signals) -> bool:
        if not (folder / "pid").exists():
            return False
        with suppress(ProcessLookupError):
            os.killpg(int((folder / "pid").read_text()), number)
        return True

    async def observe(self) -> Sequence[Observation]:
        return [self._seen(folder) for folder in sorted(self._kernels.iterdir())]

    def _seen(self, folder: Path) -> Observation:
        name, _, attempt = folder.name.rpartition("@")
        key = (KernelId(name), int(attempt))
        with suppress(FileNotFoundError):
            return Observation(*key, KernelState.EXITED, exit_code=int((folder / "exit").read_text()))
        started = (folder / "pid").exists()
        return Observation(*key, KernelState.RUNNING if started else KernelState.STARTING)

    async def forget(self, kernel_id: KernelId, attempt: int) -> None:
        folder = self._folder(kernel_id, attempt)
        if (folder / "exit").exists():
            shutil.rmtree(folder)

    async def read_log(self, kernel_id: KernelId, attempt: int, *, offset: int, limit: int) -> LogPart:
        folder = self._folder(kernel_id, attempt)
        if not folder.exists():
            raise RuntimeFailure(f"kernel {kernel_id} is not here")
        over = (folder / "exit").exists()
        content = (folder / "log").read_bytes() if (folder / "log").exists() else b""
        piece = content[offset : offset + limit]
        return LogPart(offset, piece, end=over and offset + len(piece) >= len(content))

    async def measure(self, kernel_id: KernelId, attempt: int) -> KernelUse:
        folder = self._folder(kernel_id, attempt)
        if not (folder / "pid").exists() or (folder / "exit").exists():
            raise RuntimeFailure(f"kernel {kernel_id} does not run")
        return KernelUse(self._clock.now_ms(), processes=1)

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        raise RuntimeFailure(f"{kernel_id} ({attempt}) runs no further commands, not even {command} ({terminal=})")

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        raise RuntimeFailure(f"{kernel_id} ({attempt}) does not listen on {port}")

    def processes(self) -> list[int]:
        """The kernels that live, by process id."""
        return [
            int((folder / "pid").read_text())
            for folder in self._kernels.iterdir()
            if (folder / "pid").exists() and not (folder / "exit").exists()
        ]

    def end_all(self) -> None:
        """Leave nothing behind."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)

    def _folder(self, kernel_id: str, attempt: int) -> Path:
        return self._kernels / f"{kernel_id}@{attempt}"

    def _beside(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every kernel, and wait for the processes that were started from here."""
        while self._tasks:
            self.end_all()  # one that is just starting has no process yet
            await asyncio.wait(self._tasks, timeout=0.05)

"""A further command inside a container."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from sokovan.adapters.docker.engine.client import EngineClient, EngineRefusal, EngineUnavailable, Streams, path_of
from sokovan.adapters.docker.log_copy import FrameReader
from sokovan.adapters.process.launch.environment import check_command
from sokovan.adapters.process.shim import processes
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KILLED, ProgramNotFound, RuntimeFailure

READ_BYTES = 65536
END_OF_INPUT = b"\x04"
PAUSE_S = 0.02
# An engine that has not started a command after this has failed.
START_S = 120.0
# The end of a command's output may be seen before its exit code.
CODE_S = 10.0


class ContainerExecution:
    """KernelExecution on a command that the engine runs in a container.

    `container` finds the id of the running container, and raises RuntimeFailure if there is
    none. The engine has no request that ends a command: its process is killed on this machine.
    `presence` is entered while the command runs.
    """

    def __init__(
        self,
        engine: EngineClient,
        container: Callable[[], Awaitable[str]],
        command: Sequence[str],
        *,
        terminal: bool,
        clock: Clock,
        presence: AbstractContextManager[None],
    ) -> None:
        self._engine, self._container, self._clock, self._presence = engine, container, clock, presence
        self._command, self._terminal = tuple(command), terminal
        self._streams: Streams | None = None
        self._id = ""
        self._process: processes.Process | None = None
        self._ended = asyncio.Event()
        self._frames = FrameReader()

    async def __aenter__(self) -> Self:
        """Start it; raises RuntimeFailure."""
        check_command(self._command)
        wanted = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": self._terminal,
            "Cmd": list(self._command),
        }
        try:
            container = await self._container()
            created = await self._engine.call("POST", path_of("containers", container, "exec"), body=wanted)
            self._id = str(created["Id"])
            start = {"Detach": False, "Tty": self._terminal}
            self._streams = await self._engine.taken_over(path_of("exec", self._id, "start"), start)
            await self._require_started()
        except (EngineRefusal, EngineUnavailable, OSError, ValueError, asyncio.IncompleteReadError) as error:
            self._close()
            raise RuntimeFailure(f"the command cannot be run: {error}") from error
        except BaseException:
            self._close()
            raise
        self._presence.__enter__()
        return self

    async def _require_started(self) -> None:
        """Wait until the engine has started the command, or says that it cannot."""
        deadline = self._clock.monotonic_ms() + START_S * 1000
        while True:
            about = await self._about()
            pid = int(about.get("Pid") or 0)
            if pid and about.get("Running"):
                self._process = processes.look_up(pid)
                return
            if about.get("ExitCode") is not None and not about.get("Running"):
                if pid:  # it has ended already
                    return
                raise ProgramNotFound(f"{self._command[0]!r} was not found in the container, or cannot be run")
            if self._clock.monotonic_ms() > deadline:
                raise RuntimeFailure("the container engine does not start the command")
            await self._clock.sleep(PAUSE_S)

    async def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._engine.call("GET", path_of("exec", self._id, "json"))
        return found

    async def __aexit__(self, *_details: object) -> None:
        """Stop it, unless it has ended."""
        if self._streams is None:
            return
        self._presence.__exit__(None, None, None)
        self._ended.set()
        self._close()
        if self._process is not None and processes.is_alive(self._process.pid, self._process.start):
            await asyncio.to_thread(_kill, self._process)

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()

    async def write(self, data: bytes) -> None:
        """Send input; empty bytes end the input. Ignored after the end."""
        if self._streams is None:
            return
        writer = self._streams[1]
        with contextlib.suppress(OSError, RuntimeError):
            if data or self._terminal:
                writer.write(data or END_OF_INPUT)
                await writer.drain()
            elif writer.can_write_eof():
                writer.write_eof()

    async def resize(self, *, rows: int, columns: int) -> None:
        """Set the size of its terminal, if it has one."""
        if self._terminal and self._id:
            with contextlib.suppress(EngineRefusal, EngineUnavailable):  # it has ended
                query = {"h": str(rows), "w": str(columns)}
                await self._engine.call("POST", path_of("exec", self._id, "resize"), query=query)

    async def output(self) -> AsyncIterator[bytes]:
        """Its output, until it ends."""
        if self._streams is None:
            return
        try:
            while piece := await self._streams[0].read(READ_BYTES):
                if self._terminal:
                    yield piece
                    continue
                for part in self._frames.frames(piece):
                    yield part
        except (OSError, ValueError):
            return
        finally:
            self._ended.set()

    async def wait(self) -> int:
        """Its exit code; 137 if it ended with its kernel."""
        if self._streams is None:
            raise RuntimeFailure("the command was not started", hint="enter the context first")
        await self._drained()
        deadline = self._clock.monotonic_ms() + CODE_S * 1000
        with contextlib.suppress(EngineRefusal, EngineUnavailable):
            while True:
                about = await self._about()
                if not about.get("Running") and about.get("ExitCode") is not None:
                    return int(about["ExitCode"])
                if self._is_gone() and self._clock.monotonic_ms() > deadline:
                    break
                await self._clock.sleep(PAUSE_S)
        return KILLED

    async def _drained(self) -> None:
        """Wait until the reader has seen the end, or the process is gone."""
        while not self._ended.is_set():
            if self._is_gone():
                return
            await self._clock.sleep(PAUSE_S)

    def _is_gone(self) -> bool:
        return self._process is None or not processes.is_alive(self._process.pid, self._process.start)


def _kill(process: processes.Process) -> None:
    """Kill a command and everything below it."""
    processes.send(process, signal.SIGSTOP)
    processes.kill_below(process.pid)
    processes.send(process, signal.SIGKILL)

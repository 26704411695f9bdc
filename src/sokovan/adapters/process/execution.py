"""A further command inside a kernel: started by its shim, on streams of ours."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

from sokovan.adapters.process.launch.environment import check_command
from sokovan.adapters.process.shim.request_listener import MESSAGE_MAX
from sokovan.adapters.process.shim_client import ask, connected
from sokovan.adapters.process.threads import Threads, Work
from sokovan.ports.runtime import RuntimeFailure

KILLED = 137
READ_BYTES = 65536
END_OF_INPUT = b"\x04"


class ProcessExecution:
    """Execution port on a command that the kernel's shim runs.

    The line to the shim is its leash: when it is cut, also by our death, the shim ends
    the command.
    """

    def __init__(self, folder: Path, command: Sequence[str], *, terminal: bool, threads: Threads) -> None:
        self._folder = folder
        self._command = tuple(command)
        self._terminal = terminal
        self._threads = threads
        self._input = -1
        self._output = -1
        self._line: socket.socket | None = None
        self._ending: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        """Start it; raises RuntimeFailure."""
        check_command(self._command)
        line = await self._threads.run(Work.COMMAND, self._start)
        line.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        self._line = line
        self._ending = asyncio.ensure_future(_exit_code(line))
        return self

    def _start(self) -> socket.socket:
        line = connected(self._folder)
        near, far = self._streams()
        try:
            ask(line, {"do": "run", "arguments": self._command, "terminal": self._terminal}, far)
        except BaseException:
            line.close()
            for handle in near:
                os.close(handle)
            raise
        finally:
            for handle in far:
                os.close(handle)
        self._input, self._output = near
        for handle in near:
            os.set_blocking(handle, False)
        return line

    def _streams(self) -> tuple[tuple[int, int], list[int]]:
        """Our two ends, and the command's."""
        if self._terminal:
            ours, theirs = os.openpty()
            return (os.dup(ours), ours), [theirs]
        taken, given = os.pipe()
        heard, said = os.pipe()
        return (given, heard), [taken, said, os.dup(said)]

    async def __aexit__(self, *_details: object) -> None:
        """End it, if it has not ended."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._line is not None:
            self._line.close()
        self._close_input()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def write(self, data: bytes) -> None:
        """Give it input; no bytes is the end of input. One that has ended takes none."""
        if not data and not self._terminal:
            self._close_input()
            return
        left = memoryview(data or END_OF_INPUT)
        while left and self._input >= 0:
            try:
                left = left[os.write(self._input, left) :]
            except BlockingIOError:
                await _ready(self._input, to_write=True)
            except OSError:  # nobody reads any more
                return

    async def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal the size of ours; a command without one is not concerned."""
        if self._terminal and self._output >= 0:
            fcntl.ioctl(self._output, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[bytes]:
        """What it says, until it ends."""
        while self._output >= 0:
            try:
                piece = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                await _ready(self._output, to_write=False)
                continue
            except OSError:  # how a terminal says that the other side is closed
                return
            if not piece:
                return
            yield piece

    async def wait(self) -> int:
        """Its exit code; 137 if it ended with its kernel."""
        if self._ending is None:
            raise RuntimeFailure("the command was not started", hint="enter the context first")
        return await asyncio.shield(self._ending)


async def _ready(handle: int, *, to_write: bool) -> None:
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if to_write else (loop.add_reader, loop.remove_reader)
    add(handle, _wake, woken)
    try:
        await woken
    finally:
        remove(handle)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


async def _exit_code(line: socket.socket) -> int:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(await asyncio.get_running_loop().sock_recv(line, MESSAGE_MAX))["exit_code"])
    return KILLED

"""A further command inside a kernel, started by its shim."""

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
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from sokovan.adapters.process.launch.environment import check_command
from sokovan.adapters.process.shim.request_listener import MESSAGE_MAX
from sokovan.adapters.process.shim_client import connected, send_request
from sokovan.adapters.process.threads import Threads, Work
from sokovan.ports.runtime import KILLED, RuntimeFailure

READ_BYTES = 65536
END_OF_INPUT = b"\x04"


class ProcessExecution:
    """KernelExecution on a command that the kernel's shim runs.

    The shim ends the command when the connection closes, also if this process is killed.
    `presence` is entered while the command runs.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        terminal: bool,
        threads: Threads,
        presence: AbstractContextManager[None] | None = None,
    ) -> None:
        self._folder = folder
        self._command = tuple(command)
        self._terminal = terminal
        self._threads = threads
        self._presence = contextlib.nullcontext() if presence is None else presence
        self._input = -1
        self._output = -1
        self._connection: socket.socket | None = None
        self._ending: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        """Start it; raises RuntimeFailure."""
        check_command(self._command)
        connection = await self._threads.run(Work.COMMAND, self._start)
        connection.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        self._connection = connection
        self._presence.__enter__()
        self._ending = asyncio.ensure_future(_exit_code(connection))
        return self

    def _start(self) -> socket.socket:
        connection = connected(self._folder)
        local, remote = self._streams()
        try:
            send_request(connection, {"do": "run", "arguments": self._command, "terminal": self._terminal}, remote)
        except BaseException:
            connection.close()
            for handle in local:
                os.close(handle)
            raise
        finally:
            for handle in remote:
                os.close(handle)
        self._input, self._output = local
        for handle in local:
            os.set_blocking(handle, False)
        return connection

    def _streams(self) -> tuple[tuple[int, int], list[int]]:
        """The local ends, and those of the command."""
        if self._terminal:
            controller, terminal = os.openpty()
            return (os.dup(controller), controller), [terminal]
        input_reader, input_writer = os.pipe()
        output_reader, output_writer = os.pipe()
        return (input_writer, output_reader), [input_reader, output_writer, os.dup(output_writer)]

    async def __aexit__(self, *_details: object) -> None:
        """Stop it, unless it has ended."""
        if self._ending is not None:
            self._presence.__exit__(None, None, None)
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
        self._close_input()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def write(self, data: bytes) -> None:
        """Send input; empty bytes end the input. Ignored after the end."""
        if not data and not self._terminal:
            self._close_input()
            return
        left = memoryview(data or END_OF_INPUT)
        while left and self._input >= 0:
            try:
                left = left[os.write(self._input, left) :]
            except BlockingIOError:
                await _ready(self._input, to_write=True)
            except OSError:  # the reading end is closed
                return

    async def resize(self, *, rows: int, columns: int) -> None:
        """Set the size of its terminal, if it has one."""
        if self._terminal and self._output >= 0:
            fcntl.ioctl(self._output, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def output(self) -> AsyncIterator[bytes]:
        """Its output, until it ends."""
        while self._output >= 0:
            try:
                chunk = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                await _ready(self._output, to_write=False)
                continue
            except OSError:  # the other end of a terminal is closed
                return
            if not chunk:
                return
            yield chunk

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


async def _exit_code(connection: socket.socket) -> int:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(await asyncio.get_running_loop().sock_recv(connection, MESSAGE_MAX))["exit_code"])
    return KILLED

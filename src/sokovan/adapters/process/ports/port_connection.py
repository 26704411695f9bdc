"""A connection to a port that a kernel listens on.

Kernels share the network of the machine, and any process may listen on a free port. The
port of a kernel is used only if every socket that listens on it belongs to the kernel, so
that nothing is sent to another user. `ProcessStreams` opens these connections, and commands.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Self

from sokovan.adapters.process.execution import ProcessExecution
from sokovan.adapters.process.kernel_use import MeasuredKernels
from sokovan.adapters.process.layout import KernelLayout
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.ports.kernel_listeners import KnownListeners, sockets_at, sockets_of
from sokovan.adapters.process.shim.processes import Process, descendants
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelExecution, RuntimeFailure

READ_BYTES = 65536
CONNECT_S = 5.0
CLOSE_S = 5.0
LOOPBACK = "127.0.0.1"


class PortConnection:
    """KernelExecution over a connection to a port.

    `shim` finds the shim of the kernel; `presence` is entered while the connection is open.
    """

    def __init__(
        self,
        port: int,
        shim: Callable[[], Process | None],
        *,
        threads: Threads,
        presence: AbstractContextManager[None],
        known: KnownListeners | None = None,
    ) -> None:
        self._port, self._shim, self._known = port, shim, known or KnownListeners()
        self._threads, self._presence = threads, presence
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._ended = asyncio.Event()
        self._was_reset = False

    async def __aenter__(self) -> Self:
        """Connect; raises RuntimeFailure."""
        await self._threads.run(Work.COMMAND, self._require_listener)
        try:
            async with asyncio.timeout(CONNECT_S):
                streams = await self._opened()
        except (OSError, TimeoutError) as error:
            raise _nothing_listens(self._port) from error
        try:
            # Again: it may have been replaced meanwhile.
            await self._threads.run(Work.COMMAND, self._require_listener)
        except BaseException:
            streams[1].close()
            raise
        self._streams = streams
        self._presence.__enter__()
        return self

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the port. Raises OSError."""
        return await asyncio.open_connection(LOOPBACK, self._port, limit=READ_BYTES)

    def _require_listener(self) -> None:
        """Require that the kernel, and only it, listens on the port."""
        shim = self._shim()
        if shim is None:
            raise RuntimeFailure("the kernel does not run", hint="connect to a port while its kernel runs")
        listening = sockets_at(self._port)
        if not listening:
            raise _nothing_listens(self._port)
        if self._known.are_of(shim, self._port, listening):
            return
        left = set(listening)
        for process in descendants(shim.pid):
            left -= sockets_of(process.pid)
            if not left:
                self._known.note(shim, self._port, listening)
                return
        raise RuntimeFailure(
            f"port {self._port} is used by a process outside the kernel", hint="request another port with --port NAME"
        )

    async def __aexit__(self, *_details: object) -> None:
        """Close the connection."""
        if self._streams is None:
            return
        self._presence.__exit__(None, None, None)
        self._ended.set()
        writer = self._streams[1]
        writer.close()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await writer.wait_closed()
        finally:
            # A kernel that does not read would keep what was sent to it, and the connection.
            writer.transport.abort()

    async def write(self, data: bytes) -> None:
        """Send data; empty bytes end it. Ignored after the end."""
        if self._streams is None:
            return
        writer = self._streams[1]
        with contextlib.suppress(OSError):  # the reader sees the end
            if data:
                writer.write(data)
                await writer.drain()
            elif writer.can_write_eof():
                writer.write_eof()

    async def resize(self, *, rows: int, columns: int) -> None:
        """A connection has no terminal."""

    async def output(self) -> AsyncIterator[bytes]:
        """The bytes from the port, until it closes the connection."""
        if self._streams is None:
            return
        try:
            while piece := await self._streams[0].read(READ_BYTES):
                yield piece
        except OSError:
            self._was_reset = True
        finally:
            self._ended.set()

    async def wait(self) -> int:
        """0 once the port has sent everything, 1 if the connection was reset."""
        await self._ended.wait()
        return int(self._was_reset)


def _nothing_listens(port: int) -> RuntimeFailure:
    return RuntimeFailure(
        f"nothing in the kernel listens on port {port}",
        hint="the program must listen on 127.0.0.1 and the port in SOKOVAN_PORT_NAME",
    )


class ProcessStreams(MeasuredKernels):
    """Opens commands in kernels, and connections to their ports."""

    _layout: KernelLayout
    _observer: Observer
    _threads: Threads

    @cached_property
    def _known(self) -> KnownListeners:
        return KnownListeners()

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        """Run a further command inside a running kernel."""
        folder = self._layout.folder(kernel_id, attempt)
        presence = self._observer.command(folder.name)
        return ProcessExecution(folder, command, terminal=terminal, threads=self._threads, presence=presence)

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Connect to a port that a running kernel listens on."""
        name = self._layout.folder(kernel_id, attempt).name
        presence = self._observer.command(name)
        return PortConnection(
            port, lambda: self._observer.shim(name), threads=self._threads, presence=presence, known=self._known
        )

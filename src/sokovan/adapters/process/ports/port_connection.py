"""A connection to a port that a kernel listens on.

Kernels share the network of the machine, and any process may listen on a free port. The
port of a kernel is used only if every socket that listens on it belongs to the kernel, so
that nothing is sent to another user. `ProcessStreams` opens these connections, and commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Self

from sokovan.adapters.process.execution import ProcessExecution
from sokovan.adapters.process.layout import KernelLayout
from sokovan.adapters.process.observer import Observer
from sokovan.adapters.process.ports.port_listeners import PortListeners
from sokovan.adapters.process.shim.processes import Process, descendants, read_text
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelExecution, RuntimeFailure

READ_BYTES = 65536
CONNECT_S = 5.0
CLOSE_S = 5.0
LOOPBACK = "127.0.0.1"
_LISTENS = "0A"  # the state in /proc/net/tcp
# Ports of kernels whose sockets are remembered.
KNOWN_MAX = 4_096


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
                streams = await asyncio.open_connection(LOOPBACK, self._port, limit=READ_BYTES)
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
            left -= _sockets_of(process.pid)
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


class KnownListeners:
    """Sockets that were found in a kernel before, by its shim and their port.

    To look for a socket in all processes of a kernel is slow. A socket keeps its number, and no
    other one gets it: as long as the same sockets listen, they are the kernel's.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int], frozenset[int]] = {}

    def are_of(self, shim: Process, port: int, sockets: frozenset[int]) -> bool:
        """Whether all of these are known to be the kernel's."""
        return sockets <= self._found.get((shim.pid, shim.start, port), frozenset())

    def note(self, shim: Process, port: int, sockets: frozenset[int]) -> None:
        """Remember that these are the kernel's."""
        if len(self._found) >= KNOWN_MAX:
            self._found.clear()
        self._found[shim.pid, shim.start, port] = sockets


def sockets_at(port: int) -> frozenset[int]:
    """The numbers of all sockets that listen on a port of this machine."""
    listeners = PortListeners()
    found = listeners.every(port)
    listeners.close()
    return _listed_at(port) if found is None else found


def _listed_at(port: int) -> frozenset[int]:
    """The same from the tables of all sockets, for machines that answer no such question."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(int(fields[9]))
    return frozenset(found)


def _sockets_of(pid: int) -> set[int]:
    """The open sockets of a process; empty if they may not be read."""
    found = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115  # there may be thousands
                if target.startswith("socket:["):
                    found.add(int(target[len("socket:[") : -1]))
    return found


def _nothing_listens(port: int) -> RuntimeFailure:
    return RuntimeFailure(
        f"nothing in the kernel listens on port {port}",
        hint="the program must listen on 127.0.0.1 and the port in SOKOVAN_PORT_NAME",
    )


class ProcessStreams:
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

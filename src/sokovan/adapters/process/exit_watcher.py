"""Signals the end of kernels as soon as it happens.

A shim closes its connections last, after it has recorded how its kernel ended; the
system closes them if the shim is killed. An idle connection is therefore sufficient.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection

from sokovan.adapters.process.layout import KernelLayout, opened
from sokovan.adapters.process.shim.request_listener import address


class ExitWatcher:
    """Holds connections to the shims of running kernels, while `next` is in use."""

    def __init__(self, layout: KernelLayout) -> None:
        self._layout = layout
        self._connections: dict[str, socket.socket] = {}
        self._signalled: set[str] = set()
        self._ended: asyncio.Event | None = None

    async def next(self) -> None:
        """Return when a kernel has ended since the last call."""
        if self._ended is None:
            self._ended = asyncio.Event()
        try:
            await self._ended.wait()
        except BaseException:
            self.close()
            raise
        self._ended.clear()

    def follow(self, names: Collection[str]) -> None:
        """Watch the kernels of these folders only; does nothing before `next`."""
        if self._ended is None:
            return
        for name in self._connections.keys() - set(names):
            self._drop(name)
        self._signalled.intersection_update(names)
        for name in names:
            if name not in self._connections:
                self._connect(name)

    def close(self) -> None:
        """Stop watching."""
        self._ended = None
        for name in list(self._connections):
            self._drop(name)

    def _connect(self, name: str) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            with opened(self._layout.kernels / name) as folder:
                connection.connect(address(folder))
        except (FileNotFoundError, ConnectionRefusedError):  # it has ended since the observation
            connection.close()
            self._signal_missed(name)
            return
        except OSError:  # no file descriptor left: the next poll detects the end
            connection.close()
            return
        self._connections[name] = connection
        asyncio.get_running_loop().add_reader(connection, self._closed, name)

    def _closed(self, name: str) -> None:
        self._drop(name)
        if self._ended is not None:
            self._ended.set()

    def _signal_missed(self, name: str) -> None:
        """Signal once: a kernel that cannot be killed stays listed without a shim."""
        if self._ended is not None and name not in self._signalled:
            self._signalled.add(name)
            self._ended.set()

    def _drop(self, name: str) -> None:
        connection = self._connections.pop(name)
        asyncio.get_running_loop().remove_reader(connection)
        connection.close()

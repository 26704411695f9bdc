"""Ends of kernels, told at the moment they happen.

A shim cuts its lines as its last act, after it has written down how its kernel ended;
the system cuts them if the shim is killed. So a line that nobody speaks on is enough.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection

from sokovan.adapters.process.layout import KernelLayout, opened
from sokovan.adapters.process.shim.request_listener import address


class ExitWatcher:
    """Lines to the shims of kernels that run, while somebody waits for an end."""

    def __init__(self, places: KernelLayout) -> None:
        self._places = places
        self._lines: dict[str, socket.socket] = {}
        self._missed: set[str] = set()
        self._heard: asyncio.Event | None = None

    async def next(self) -> None:
        """Return when a kernel has ended since the last call."""
        if self._heard is None:
            self._heard = asyncio.Event()
        try:
            await self._heard.wait()
        except BaseException:
            self.close()
            raise
        self._heard.clear()

    def follow(self, names: Collection[str]) -> None:
        """Listen to the kernels of these folders, and to no others; if anybody waits."""
        if self._heard is None:
            return
        for name in self._lines.keys() - set(names):
            self._drop(name)
        self._missed.intersection_update(names)
        for name in names:
            if name not in self._lines:
                self._connect(name)

    def close(self) -> None:
        """Listen to nobody."""
        self._heard = None
        for name in list(self._lines):
            self._drop(name)

    def _connect(self, name: str) -> None:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            with opened(self._places.kernels / name) as folder:
                line.connect(address(folder))
        except (FileNotFoundError, ConnectionRefusedError):  # it has ended since it was looked at
            line.close()
            self._miss(name)
            return
        except OSError:  # no room for another line: the next look by the clock tells
            line.close()
            return
        self._lines[name] = line
        asyncio.get_running_loop().add_reader(line, self._cut, name)

    def _cut(self, name: str) -> None:
        self._drop(name)
        if self._heard is not None:
            self._heard.set()

    def _miss(self, name: str) -> None:
        """Told once: one that cannot be ended is listed without a shim, again and again."""
        if self._heard is not None and name not in self._missed:
            self._missed.add(name)
            self._heard.set()

    def _drop(self, name: str) -> None:
        line = self._lines.pop(name)
        asyncio.get_running_loop().remove_reader(line)
        line.close()

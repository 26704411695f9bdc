"""Signals the end of kernels as soon as it happens.

A shim ends last, after it has recorded how its kernel ended. The end of its process is
watched, not of a connection to it: the system closes the files of a killed process while
it still counts as running, and an observation made then would miss the end.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Collection

from sokovan.adapters.process.shim.processes import Process, is_alive


class ExitWatcher:
    """Holds handles of the shims of running kernels, while `next` is in use."""

    def __init__(self, shim: Callable[[str], Process | None]) -> None:
        self._shim = shim
        self._handles: dict[str, int] = {}
        self._signalled: set[str] = set()
        # Those that have ended, in this order, until they are taken.
        self._gone: dict[str, None] = {}
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

    def taken(self) -> list[str]:
        """The folders of kernels that have ended since the last call."""
        gone, self._gone = list(self._gone), {}
        return gone

    def followed(self) -> set[str]:
        """The folders of the kernels that are watched."""
        return set(self._handles)

    def follow(self, names: Collection[str], *, before: Collection[str]) -> None:
        """Watch the kernels of these folders; does nothing before `next`.

        Of the others those that were watched `before` the names were listed are left: what
        was started meanwhile is not in the list.
        """
        if self._ended is None:
            return
        listed = set(names)
        for name in (self._handles.keys() & set(before)) - listed:
            self._drop(name)
        self._signalled &= listed
        for name in names:
            if name not in self._handles:
                self._watch(name)

    def follow_started(self, name: str, traces: str) -> None:
        """Watch a kernel that has just started; does nothing before `next`."""
        if self._ended is not None and name not in self._handles:
            shim = json.loads(traces)
            self._hold(name, shim.get("shim_pid", 0), shim.get("shim_start", 0))

    def close(self) -> None:
        """Stop watching."""
        self._ended = None
        self._gone.clear()
        for name in list(self._handles):
            self._drop(name)

    def _watch(self, name: str) -> None:
        shim = self._shim(name)
        if shim is None:  # it has ended since the observation
            self._signal_missed(name)
            return
        self._hold(name, shim.pid, shim.start)

    def _hold(self, name: str, pid: int, start: int) -> None:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._signal_missed(name)
            return
        except OSError:  # no file descriptor left: the next poll detects the end
            return
        self._handles[name] = handle
        asyncio.get_running_loop().add_reader(handle, self._ends, name)
        if not is_alive(pid, start):  # its number may belong to another process now
            self._ends(name)

    def _ends(self, name: str) -> None:
        self._drop(name)
        self._signal(name)

    def _signal_missed(self, name: str) -> None:
        """Signal once: a kernel that cannot be killed stays listed without a shim."""
        if name not in self._signalled:
            self._signalled.add(name)
            self._signal(name)

    def _signal(self, name: str) -> None:
        if self._ended is not None:
            self._gone[name] = None
            self._ended.set()

    def _drop(self, name: str) -> None:
        handle = self._handles.pop(name)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)

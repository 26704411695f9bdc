"""Hints of several processes.

Each process has its own copy of every hint, because each looks for work by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from sokovan.adapters.broadcast.link import BroadcastLink
from sokovan.ports.events import BusUnavailable
from sokovan.ports.hints import Hints

CHANNEL = "sokovan_hints"
NAME_MAX = 200


class BroadcastHints:
    """The Hints port: those of this process, set by other processes too.

    Hints named `own` concern this process only.
    """

    def __init__(self, local: Hints, link: BroadcastLink, *, own: Collection[str] = ()) -> None:
        self._local, self._link, self._own = local, link, frozenset(own)
        self._unsent: set[str] = set()
        self._known: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        link.listen(CHANNEL, self._received, self._opened)

    async def set(self, name: str) -> None:
        """Set the hint here at once, and soon in the other processes."""
        await self._local.set(name)
        if name in self._own:
            return
        self._unsent.add(name)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def take(self, name: str) -> bool:
        """Clear the hint of this process; whether it was set."""
        return await self._local.take(name)

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is set, False after `timeout_s`."""
        self._known.update(names)
        return await self._local.wait(names, timeout_s=timeout_s)

    async def close(self) -> None:
        """Drop hints that were not sent; the long cycle of the others does their work."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._local.close()

    async def _send(self) -> None:
        """Send hints until none is left; those set meanwhile are sent together."""
        while self._unsent:
            names, self._unsent = sorted(self._unsent), set()
            with suppress(BusUnavailable):  # the long cycle of the others does the work
                await self._link.notify(CHANNEL, names)

    def _received(self, name: str) -> None:
        if name not in self._own and len(name) <= NAME_MAX:
            self._set_soon(name)

    def _opened(self) -> None:
        """Assume that other processes have set every hint that this one waits for."""
        for name in self._known - self._own:
            self._set_soon(name)

    def _set_soon(self, name: str) -> None:
        task = asyncio.ensure_future(self._local.set(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

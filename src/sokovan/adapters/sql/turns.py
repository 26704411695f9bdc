"""Turns: one writer at a time per SQLite file, first come, first served.

SQLite has one writer. Waiting for it in the database is polling, and whoever polls
at the right moment wins; waiting here is fair and ends at once. A process may use
one file from several event loops, each in a thread of its own, so a turn is passed
on from thread to thread. Writers of other processes still meet in the database.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """A queue for one writer, for tasks of any loop in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the end of the block."""
        await self._take()
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            self._give_up(mine)
            raise

    def _give_up(self, mine: asyncio.Future[None]) -> None:
        """Leave the queue; a turn that came in the same moment goes to the next."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the first in the queue have the turn; nobody has it if nobody waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._taken = False
                    return
                following = self._waiting.popleft()
            try:
                following.get_loop().call_soon_threadsafe(_wake, following)
            except RuntimeError:
                continue  # its loop was closed under it: it waits for nothing any more
            return


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


_LOCK = threading.Lock()
_BY_FILE: WeakValueDictionary[str, Turns] = WeakValueDictionary()


def turns_of(path: str) -> Turns:
    """The one queue of a file in this process, whatever way its path is written."""
    with _LOCK:
        return _BY_FILE.setdefault(os.path.realpath(path), Turns())

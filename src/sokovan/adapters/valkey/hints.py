"""Hints on Valkey: one key each, and a channel that wakes waiters.

The key is authoritative. A message may be lost; a waiter checks the keys when it
starts, when it is woken, and at intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from sokovan.adapters.valkey.connection import DEADLINE_S, RETRY_S_MIN, Link
from sokovan.ports.events import BusUnavailable

POLL_S = 1.0
# A listener without messages for this long pings the server.
PING_AFTER_S = 5.0


class ValkeyHints:
    """The Hints port on Valkey."""

    def __init__(self, url: str, *, prefix: str = "sokovan", deadline_s: float = DEADLINE_S) -> None:
        self._prefix = prefix
        self._link = Link(url, deadline_s=deadline_s)
        self._subscriber = Link(url, deadline_s=deadline_s)
        self._channel = f"{prefix}:hints"
        self._waiting: dict[asyncio.Event, frozenset[bytes]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def set(self, name: str) -> None:
        """Set the hint and wake its waiters; does nothing if the bus is unavailable."""
        with suppress(BusUnavailable):
            await self._link.call_all([("SET", self._key(name), 1), ("PUBLISH", self._channel, name)])

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was set. True if the bus is unavailable."""
        try:
            return await self._link.call("GETDEL", self._key(name)) is not None
        except BusUnavailable:
            return True

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is set, False after `timeout_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        woken = asyncio.Event()
        self._waiting[woken] = frozenset(name.encode() for name in names)
        self._listen()
        try:
            while not await self._any_set(names):
                left_s = until - loop.time()
                if left_s <= 0:
                    return False
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, POLL_S)):
                        await woken.wait()
                woken.clear()
        finally:
            del self._waiting[woken]
        return True

    async def close(self) -> None:
        """Close all connections."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._subscriber.close()
        await self._link.close()

    def _key(self, name: str) -> str:
        return f"{self._prefix}:hint:{name}"

    async def _any_set(self, names: Collection[str]) -> bool:
        try:
            return bool(names) and bool(await self._link.call("EXISTS", *map(self._key, names)))
        except BusUnavailable:
            return False

    def _listen(self) -> None:
        if not self._subscriber.closed and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._listen_forever())

    async def _listen_forever(self) -> None:
        while True:
            with suppress(BusUnavailable):
                await self._subscriber.call("SUBSCRIBE", self._channel)
                # Hints that were set before the subscription are found by checking the keys.
                self._wake_all()
                await self._dispatch_messages()
            await asyncio.sleep(max(self._subscriber.retry_in_s, RETRY_S_MIN))

    async def _dispatch_messages(self) -> None:
        while True:
            message = await self._subscriber.pushed(wait_s=PING_AFTER_S) or await self._subscriber.call("PING")
            if message[0] == b"message":
                for woken, names in self._waiting.items():
                    if message[2] in names:
                        woken.set()

    def _wake_all(self) -> None:
        for woken in self._waiting:
            woken.set()

"""Hints on Valkey: a key each, and a channel that only says when to look.

The key is the truth. A message may be missed; who waits looks at the keys when it
begins, when it is called, and once in a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from sokovan.adapters.valkey.connection import DEADLINE_S, RETRY_S_MIN, Link
from sokovan.ports.events import BusUnavailable

LOOK_AGAIN_S = 1.0
# A listener that hears nothing for so long asks whether the server is there.
SILENCE_S = 5.0


class ValkeyHints:
    """The Hints port on Valkey."""

    def __init__(self, url: str, *, prefix: str = "sokovan", deadline_s: float = DEADLINE_S) -> None:
        self._prefix = prefix
        self._link = Link(url, deadline_s=deadline_s)
        self._ear = Link(url, deadline_s=deadline_s)
        self._channel = f"{prefix}:hints"
        self._waiting: dict[asyncio.Event, frozenset[bytes]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def set(self, name: str) -> None:
        """Leave the hint and wake those who wait for it; a bus that is away is not told."""
        with suppress(BusUnavailable):
            await self._link.call_all([("SET", self._key(name), 1), ("PUBLISH", self._channel, name)])

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was there. True as well if that cannot be known."""
        try:
            return await self._link.call("GETDEL", self._key(name)) is not None
        except BusUnavailable:
            return True

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is there, False after `timeout_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        called = asyncio.Event()
        self._waiting[called] = frozenset(name.encode() for name in names)
        self._listen()
        try:
            while not await self._any_there(names):
                left_s = until - loop.time()
                if left_s <= 0:
                    return False
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                        await called.wait()
                called.clear()
        finally:
            del self._waiting[called]
        return True

    async def close(self) -> None:
        """Let go of connections."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._ear.close()
        await self._link.close()

    def _key(self, name: str) -> str:
        return f"{self._prefix}:hint:{name}"

    async def _any_there(self, names: Collection[str]) -> bool:
        try:
            return bool(names) and bool(await self._link.call("EXISTS", *map(self._key, names)))
        except BusUnavailable:
            return False

    def _listen(self) -> None:
        if not self._ear.closed and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._listen_for_ever())

    async def _listen_for_ever(self) -> None:
        while True:
            with suppress(BusUnavailable):
                await self._ear.call("SUBSCRIBE", self._channel)
                # What was set before the channel was open is seen by looking.
                self._call_everybody()
                await self._pass_on_calls()
            await asyncio.sleep(max(self._ear.retry_in_s, RETRY_S_MIN))

    async def _pass_on_calls(self) -> None:
        while True:
            message = await self._ear.pushed(wait_s=SILENCE_S) or await self._ear.call("PING")
            if message[0] == b"message":
                for called, names in self._waiting.items():
                    if message[2] in names:
                        called.set()

    def _call_everybody(self) -> None:
        for called in self._waiting:
            called.set()

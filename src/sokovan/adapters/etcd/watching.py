"""Waits for a configuration in etcd to change, through restarts and compactions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from sokovan.adapters.etcd.keys import Stored
from sokovan.ports.config import ConfigTree, ConfigUnavailable, UnreadableConfig
from sokovan.ports.environment import Clock

# How long a quiet stream is trusted. A server that lost its quorum keeps the stream open and says nothing.
TRUST_S = 30.0
PAUSE_S, PAUSE_MAX_S = 0.05, 2.0
HASTE_MS = 1000


class Source(Protocol):
    """What a watch needs of its store."""

    async def stored(self) -> Stored:
        """Everything below the prefix now. Raises ConfigUnavailable."""

    async def changed_after(self, revision: int) -> None:
        """Return when something changed, or when that can no longer be known."""


class EtcdWatch:
    """The states of a configuration that differ from the one before.

    It keeps nothing but the last state that it told: whatever wakes it, it reads all
    again. So a broken stream, a restart and a compaction need no treatment of their own.
    """

    def __init__(self, source: Source, *, clock: Clock, closed: asyncio.Event, told: str) -> None:
        self._source, self._clock, self._closed = source, clock, closed
        self._told = told
        self._pause_s = PAUSE_S

    def __aiter__(self) -> EtcdWatch:
        return self

    async def __anext__(self) -> ConfigTree | UnreadableConfig:
        searching = asyncio.ensure_future(self._new_state())
        ending = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({searching, ending}, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.is_set():
                raise StopAsyncIteration
            return searching.result()
        finally:
            await _ended(searching)
            await _ended(ending)

    async def _new_state(self) -> ConfigTree | UnreadableConfig:
        while True:
            began = self._clock.monotonic_ms()
            try:
                stored = await self._source.stored()
            except ConfigUnavailable:
                await self._rest()
                continue
            if stored.revision != self._told:
                self._told, self._pause_s = stored.revision, PAUSE_S
                return _state(stored)
            await self._waited(self._source.changed_after, stored.at)
            # A stream that ends at once and shows nothing new must not make us ask in a circle.
            if self._clock.monotonic_ms() - began < HASTE_MS:
                await self._rest()
            else:
                self._pause_s = PAUSE_S

    async def _waited(self, wait: Callable[[int], Awaitable[None]], revision: int) -> None:
        with contextlib.suppress(TimeoutError, ConfigUnavailable, OSError):
            async with asyncio.timeout(TRUST_S):
                await wait(revision)

    async def _rest(self) -> None:
        await self._clock.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


def _state(stored: Stored) -> ConfigTree | UnreadableConfig:
    try:
        return stored.tree()
    except UnreadableConfig as error:
        return error


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancel a task and see it off, so that its stream is closed before the channel is."""
    task.cancel()
    await asyncio.wait([task])

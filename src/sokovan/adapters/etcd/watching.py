"""Watches a configuration in etcd, across restarts and compactions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from sokovan.adapters.etcd.keys import Stored
from sokovan.ports.config import ConfigTree, ConfigUnavailable, UnreadableConfig
from sokovan.ports.environment import Clock

# Maximum wait on a quiet stream. A server without quorum keeps the stream open and sends nothing.
STREAM_TIMEOUT_S = 30.0
PAUSE_S, PAUSE_MAX_S = 0.05, 2.0
FAST_RETRY_MS = 1000


class Source(Protocol):
    """The methods of the store that a watch uses."""

    async def stored(self) -> Stored:
        """Everything below the prefix now. Raises ConfigUnavailable."""

    async def changed_after(self, revision: int) -> None:
        """Return when something changed, or when the watch was interrupted."""


class EtcdWatch:
    """Iterates over the states of a configuration that differ from the previous one.

    It remembers only the last revision it returned, and reads everything again after each
    wake-up. So a broken stream, a restart and a compaction need no special handling.
    """

    def __init__(self, source: Source, *, clock: Clock, closed: asyncio.Event, seen: str) -> None:
        self._source, self._clock, self._closed = source, clock, closed
        self._seen = seen
        self._pause_s = PAUSE_S

    def __aiter__(self) -> EtcdWatch:
        return self

    async def __anext__(self) -> ConfigTree | UnreadableConfig:
        next_state = asyncio.ensure_future(self._new_state())
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({next_state, closing}, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.is_set():
                raise StopAsyncIteration
            return next_state.result()
        finally:
            await _cancelled(next_state)
            await _cancelled(closing)

    async def _new_state(self) -> ConfigTree | UnreadableConfig:
        while True:
            began = self._clock.monotonic_ms()
            try:
                stored = await self._source.stored()
            except ConfigUnavailable:
                await self._back_off()
                continue
            if stored.revision != self._seen:
                self._seen, self._pause_s = stored.revision, PAUSE_S
                return _state(stored)
            await self._wait(self._source.changed_after, stored.at)
            # A stream that ends at once without a change must not cause a busy loop.
            if self._clock.monotonic_ms() - began < FAST_RETRY_MS:
                await self._back_off()
            else:
                self._pause_s = PAUSE_S

    async def _wait(self, wait: Callable[[int], Awaitable[None]], revision: int) -> None:
        with contextlib.suppress(TimeoutError, ConfigUnavailable, OSError):
            async with asyncio.timeout(STREAM_TIMEOUT_S):
                await wait(revision)

    async def _back_off(self) -> None:
        await self._clock.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


def _state(stored: Stored) -> ConfigTree | UnreadableConfig:
    try:
        return stored.tree()
    except UnreadableConfig as error:
        return error


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for it, so that its stream is closed before the channel."""
    task.cancel()
    await asyncio.wait([task])

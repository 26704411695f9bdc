"""Hints and events of several processes, each with its own connection to PostgreSQL or Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Self

from sokovan.adapters.broadcast.events import BroadcastEvents
from sokovan.adapters.broadcast.hints import BroadcastHints
from sokovan.adapters.broadcast.link import BroadcastLink
from sokovan.adapters.broadcast.postgres_link import NotificationLink
from sokovan.adapters.broadcast.valkey_link import ValkeyLink
from sokovan.adapters.inprocess.events import BACKLOG_MAX, REDELIVER_AFTER_S, InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import secret_text


class NotifiedProcesses:
    """Makes hints and buses, as each of several processes would have them."""

    def __init__(self, link: Callable[[], BroadcastLink]) -> None:
        self._link, self._stack = link, AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._stack.aclose()

    async def hints(self) -> BroadcastHints:
        """The hints of another process."""
        link = self._link()
        made = BroadcastHints(InProcessHints(SystemClock()), link)
        await self.opened(link)
        self._stack.push_async_callback(made.close)
        return made

    async def events(
        self, *, backlog_max: int = BACKLOG_MAX, redeliver_after_s: float = REDELIVER_AFTER_S
    ) -> BroadcastEvents:
        """The event bus of another process."""
        link = self._link()
        local = InProcessEventBus(SystemClock(), backlog_max=backlog_max, redeliver_after_s=redeliver_after_s)
        made = BroadcastEvents(local, link)
        await self.opened(link)
        return made

    async def opened(self, link: BroadcastLink) -> None:
        """Run a link, and wait until its connection is open."""
        ready = asyncio.Event()
        link.listen("sokovan_test", lambda _payload: None, ready.set)
        running = asyncio.create_task(link.run())
        self._stack.push_async_callback(_ended, running)
        async with asyncio.timeout(60):
            await ready.wait()


def on_postgres(url: str) -> NotifiedProcesses:
    """Processes on one database."""
    return NotifiedProcesses(lambda: NotificationLink(url, SystemClock()))


def on_valkey(url: str) -> NotifiedProcesses:
    """Processes on one Valkey, apart from all others there."""
    prefix = f"test-{secret_text(8)}"
    return NotifiedProcesses(lambda: ValkeyLink(url, SystemClock(), prefix=prefix))


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

"""Hints and events of several processes on one PostgreSQL database, each with its own connection."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Self

from sokovan.adapters.inprocess.events import BACKLOG_MAX, REDELIVER_AFTER_S, InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.postgres.connection import NotificationLink
from sokovan.adapters.postgres.events import PostgresEvents
from sokovan.adapters.postgres.hints import PostgresHints


class NotifiedProcesses:
    """Makes hints and buses, as each of several processes would have them."""

    def __init__(self, url: str) -> None:
        self._url, self._stack = url, AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._stack.aclose()

    async def hints(self) -> PostgresHints:
        """The hints of another process."""
        link = NotificationLink(self._url, SystemClock())
        made = PostgresHints(InProcessHints(SystemClock()), link)
        await self.opened(link)
        self._stack.push_async_callback(made.close)
        return made

    async def events(
        self, *, backlog_max: int = BACKLOG_MAX, redeliver_after_s: float = REDELIVER_AFTER_S
    ) -> PostgresEvents:
        """The event bus of another process."""
        link = NotificationLink(self._url, SystemClock())
        local = InProcessEventBus(SystemClock(), backlog_max=backlog_max, redeliver_after_s=redeliver_after_s)
        made = PostgresEvents(local, link)
        await self.opened(link)
        return made

    async def opened(self, link: NotificationLink) -> None:
        """Run a link, and wait until its connection is open."""
        ready = asyncio.Event()
        link.listen("sokovan_test", lambda _payload: None, ready.set)
        running = asyncio.create_task(link.run())
        self._stack.push_async_callback(_ended, running)
        async with asyncio.timeout(30):
            await ready.wait()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

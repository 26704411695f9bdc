"""Runs work to its end although its caller was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class UncancellableTasks:
    """Runs coroutines as tasks, which complete although their caller was cancelled."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of the work. Raises what it raises."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for tasks whose callers were cancelled."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        # Retrieve the exception, so that asyncio does not log it as never retrieved.
        if not task.cancelled():
            task.exception()

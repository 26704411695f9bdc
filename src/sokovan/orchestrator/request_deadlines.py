"""Deadlines of many concurrent requests, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from sokovan.orchestrator.handler import DeadlinePassed, WorkCancelled
from sokovan.ports.environment import Clock

R = TypeVar("R")


class RequestDeadlines:
    """Cancels requests that take longer than `seconds`.

    All have the same time, so that the oldest one is due first: the tasks and the timer of
    `within` for each cost more than most requests do.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        # In the order of their deadlines, in milliseconds.
        self._due: dict[asyncio.Task[Any], int] = {}
        self._timer: asyncio.Task[None] | None = None

    async def awaited(self, work: Awaitable[R]) -> R:
        """The result of `work`, which belongs to the current task.

        Raises DeadlinePassed; WorkCancelled if the work cancelled itself, which must not look
        like a cancellation of the caller.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in a task")
        self._due[task] = self._clock.monotonic_ms() + round(self._seconds * 1000)
        if self._timer is None:
            self._timer = asyncio.ensure_future(self._expire())
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._due:
                task.uncancel()
                raise DeadlinePassed(f"not done after {self._seconds:g} s") from None
            if not task.cancelling():
                raise WorkCancelled("the work cancelled itself") from None
            raise
        finally:
            self._due.pop(task, None)
            if not self._due and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def _expire(self) -> None:
        """Cancel each task at its deadline, until none is left."""
        while True:
            task, due_ms = next(iter(self._due.items()))
            wait_ms = due_ms - self._clock.monotonic_ms()
            if wait_ms > 0:
                await self._clock.sleep(wait_ms / 1000)
            elif self._due.pop(task, None) is not None:
                task.cancel()
            if not self._due:
                self._timer = None
                return

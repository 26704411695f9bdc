"""What is to happen when: one heap, and one waiter who sleeps until it is due."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

from sokovan.ports.environment import Clock

Act: TypeAlias = Callable[[], None]


class EventQueue:
    """Acts by the time they are due; of equal times, the one that was put in first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._acts: list[tuple[int, int, Act]] = []
        self._order = count()
        self._nudged = asyncio.Event()

    def after(self, seconds: float, act: Act) -> None:
        """Have something happen in so many seconds."""
        due_ms = self._clock.monotonic_ms() + round(seconds * 1000)
        is_next = not self._acts or due_ms < self._acts[0][0]
        heapq.heappush(self._acts, (due_ms, next(self._order), act))
        if is_next:
            self.nudge()

    def due(self) -> Iterator[Act]:
        """Everything whose time has come, in order."""
        while self._acts and self._acts[0][0] <= self._clock.monotonic_ms():
            yield heapq.heappop(self._acts)[2]

    def nudge(self) -> None:
        """Have whoever waits look again."""
        self._nudged.set()

    async def wait(self) -> None:
        """Return when something is due, or might be."""
        if not self._acts:
            await self._nudged.wait()
        elif not self._nudged.is_set():
            left_ms = self._acts[0][0] - self._clock.monotonic_ms()
            nudged = asyncio.ensure_future(self._nudged.wait())
            elapsed = asyncio.ensure_future(self._clock.sleep(max(0.0, left_ms / 1000)))
            try:
                await asyncio.wait({nudged, elapsed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                nudged.cancel()
                elapsed.cancel()
        self._nudged.clear()

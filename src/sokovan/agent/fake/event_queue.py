"""A timer queue: one heap of actions, and one task that waits for the next."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

from sokovan.ports.environment import Clock

Action: TypeAlias = Callable[[], None]

# Due times are multiples of this, so that the events of many agents share a turn.
GRAIN_MS = 10


class EventQueue:
    """Actions ordered by due time; those due at the same time in order of insertion."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._actions: list[tuple[int, int, Action]] = []
        self._order = count()
        self._woken = asyncio.Event()

    def now_ms(self) -> int:
        """The time by which actions are due."""
        return self._clock.monotonic_ms()

    def after(self, seconds: float, action: Action) -> None:
        """Schedule an action in this many seconds, rounded up."""
        exact_ms = self._clock.monotonic_ms() + round(seconds * 1000)
        due_ms = -(-exact_ms // GRAIN_MS) * GRAIN_MS
        is_next = not self._actions or due_ms < self._actions[0][0]
        heapq.heappush(self._actions, (due_ms, next(self._order), action))
        if is_next:
            self.wake()

    def due(self) -> Iterator[Action]:
        """Remove and return the actions that are due, in order."""
        while self._actions and self._actions[0][0] <= self._clock.monotonic_ms():
            yield heapq.heappop(self._actions)[2]

    def wake(self) -> None:
        """Make `wait` return."""
        self._woken.set()

    async def wait(self) -> None:
        """Return when an action is due, or after `wake`."""
        if not self._actions:
            await self._woken.wait()
        elif not self._woken.is_set():
            left_ms = self._actions[0][0] - self._clock.monotonic_ms()
            woken = asyncio.ensure_future(self._woken.wait())
            elapsed = asyncio.ensure_future(self._clock.sleep(max(0.0, left_ms / 1000)))
            try:
                await asyncio.wait({woken, elapsed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
                elapsed.cancel()
        self._woken.clear()

"""Virtual time, advanced explicitly by tests."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Generator
from itertools import count
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# Lets time pass: `VirtualClock.advance` in virtual time, `sleep` of a real clock otherwise.
Elapse: TypeAlias = Callable[[float], Awaitable[None]]

EPOCH_MS = 1_700_000_000_000
# How often other tasks run before time advances. A chain of more wake-ups than this within one instant is not awaited;
# nor is anything outside the event loop, such as a thread or a socket.
PASSES = 50
OUTCOME_STEP_S = 0.05
OUTCOME_LIMIT_S = 60.0


class VirtualClock:
    """A Clock that advances only by `advance`."""

    def __init__(self, *, now_ms: int = EPOCH_MS) -> None:
        self._offset_ms = now_ms
        self._passed_us = 0
        self._order = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        """Virtual milliseconds since 1970 in UTC."""
        return self._offset_ms + self._passed_us // 1000

    def monotonic_ms(self) -> int:
        """Milliseconds since this clock was created."""
        return self._passed_us // 1000

    def jump(self, seconds: float) -> None:
        """Set the time of day forward or back; durations are not affected."""
        self._offset_ms += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        """Return when `advance` has reached the time."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            asyncio.get_running_loop().call_soon(_wake, woken)
        else:
            due_us = self._passed_us + max(1, round(seconds * 1_000_000))
            heapq.heappush(self._sleepers, (due_us, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: wake each sleeper at its own moment, in order."""
        await self._settle()
        until_us = self._passed_us + round(seconds * 1_000_000)
        while self._sleepers and self._sleepers[0][0] <= until_us:
            due_us, _, woken = heapq.heappop(self._sleepers)
            self._passed_us = max(self._passed_us, due_us)
            if not woken.done():
                woken.set_result(None)
                await self._settle()
        self._passed_us = until_us
        await self._settle()

    @property
    def sleeping(self) -> int:
        """The number of sleeping tasks."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def _settle(self) -> None:
        await _Passes()


class _Passes:
    """Lets other tasks run `PASSES` times: a bare yield costs half as much as a future."""

    def __await__(self) -> Generator[None]:
        for _ in range(PASSES):
            yield


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


async def outcome(work: Awaitable[T], *, elapse: Elapse, limit_s: float = OUTCOME_LIMIT_S) -> T:
    """The result of `work` while time passes; raises AssertionError after `limit_s`."""
    task = asyncio.ensure_future(work)
    try:
        for _ in range(round(limit_s / OUTCOME_STEP_S)):
            await elapse(0)
            if task.done():
                return task.result()
            await elapse(OUTCOME_STEP_S)
        raise AssertionError(f"not done after {limit_s:.0f} s")
    finally:
        task.cancel()


async def until(holds: Callable[[], Awaitable[bool]], *, elapse: Elapse, limit_s: float = OUTCOME_LIMIT_S) -> None:
    """Let time pass until `holds`; raises AssertionError after `limit_s`."""
    for _ in range(round(limit_s / OUTCOME_STEP_S)):
        if await holds():
            return
        await elapse(OUTCOME_STEP_S)
    raise AssertionError(f"condition not met within {limit_s:.0f} s")

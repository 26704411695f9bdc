"""Periodic tasks: quick on a hint, always after a while.

A hint is taken before the work that it causes, so one that is set meanwhile
causes the next round. Events are never needed for progress: the long cycle works
without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints


def _nothing_due() -> float | None:
    """Where nothing waits for a time of its own."""
    return None


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a coordinator: what it does, what wakes it, how often it runs.

    `work` gives whether there is more to do at once. `apart_s` is the least time
    from the beginning of one round to the next: hints that come closer together are
    served together, and one that comes after idleness is served at once. `due` gives
    the seconds until there is work without any hint, or None.
    """

    name: str
    work: Callable[[], Awaitable[bool]]
    hints: tuple[str, ...] = ()
    apart_s: float = 0.02
    long_cycle_s: float = 10.0
    due: Callable[[], float | None] = _nothing_due


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A round that raised; the next one comes all the same."""

    task: str
    error: Exception
    in_a_row: int


class PeriodicTask:
    """Runs one task until it is stopped. What a round raises is reported and survived."""

    def __init__(self, spec: TaskSpec, *, clock: Clock, hints: Hints, failed: Callable[[TaskFailure], None]) -> None:
        self.spec = spec
        self._clock, self._hints, self._failed = clock, hints, failed
        self._stopping = asyncio.Event()
        self._failures = 0

    async def run(self) -> None:
        """Work until `stop`: on a hint at once, coalesced; otherwise after the long cycle."""
        while not self._stopping.is_set():
            began_ms = self._clock.monotonic_ms()
            for hint in self.spec.hints:
                await self._hints.take(hint)
            if not await self.round():
                await self._until_stopped(self._hints.wait(self.spec.hints, timeout_s=self._longest_wait_s()))
            passed_s = (self._clock.monotonic_ms() - began_ms) / 1000
            await self._until_stopped(self._clock.sleep(max(0.0, self._apart_s() - passed_s)))

    async def round(self) -> bool:
        """One round of work; whether there is more to do at once."""
        try:
            more = await self.spec.work()
        except Exception as error:  # noqa: BLE001  # a round that fails must not end the task
            self._failures += 1
            self._failed(TaskFailure(self.spec.name, error, self._failures))
            return False
        self._failures = 0
        return more

    def stop(self) -> None:
        """Let the round that is under way be the last."""
        self._stopping.set()

    def _longest_wait_s(self) -> float:
        due_s = self.spec.due()
        return self.spec.long_cycle_s if due_s is None else max(0.0, min(due_s, self.spec.long_cycle_s))

    def _apart_s(self) -> float:
        """Further apart while rounds fail: a store that is away gains nothing by being asked more often."""
        doublings = min(self._failures, 16)
        return min(self.spec.long_cycle_s, self.spec.apart_s * (1 << doublings))

    async def _until_stopped(self, waiting: Awaitable[object]) -> None:
        """Wait, but not beyond `stop`."""
        wait, stopped = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({wait, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (wait, stopped):
                task.cancel()
            await asyncio.gather(wait, stopped, return_exceptions=True)

"""Periodic tasks: run on a hint, and at the latest after the long cycle.

A hint is taken before the work that it triggers, so one that is set meanwhile triggers the
next run. Progress never depends on hints: the long cycle works without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints

# Under load a run is followed by a pause as long as itself, up to this: more is then handled together, at less cost for
# each object. After idleness, runs that take less than the burst in all are not: a single session needs several.
PAUSE_MAX_S = 0.1
BURST_S = 0.25


def _nothing_left() -> bool:
    """The default of `TaskSpec.is_unfinished`."""
    return False


def _nothing_due() -> float | None:
    """The default of `TaskSpec.due`: no deadline."""
    return None


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a coordinator: its work, the hints that wake it, its intervals.

    `work` returns whether there is more to do at once. `min_interval_s` separates the
    starts of two runs, which a long run extends: hints in between are coalesced, and one
    after an idle time is served at once. `due` returns the seconds until work is due without a hint, or None.
    `is_unfinished` says whether the last run left known work for the next one, which then
    follows without a pause: nothing is gained by waiting for more.
    """

    name: str
    work: Callable[[], Awaitable[bool]]
    hints: tuple[str, ...] = ()
    min_interval_s: float = 0.02
    long_cycle_s: float = 10.0
    due: Callable[[], float | None] = _nothing_due
    is_unfinished: Callable[[], bool] = _nothing_left


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error of a task, which continues with its next run."""

    task: str
    error: Exception
    in_a_row: int


class PeriodicTask:
    """Runs one task until it is stopped; errors are reported and do not end it."""

    def __init__(self, spec: TaskSpec, *, clock: Clock, hints: Hints, failed: Callable[[TaskFailure], None]) -> None:
        self.spec = spec
        self._clock, self._hints, self._failed = clock, hints, failed
        self._stopping = asyncio.Event()
        self._failures = 0
        self._burst_s = BURST_S

    async def run(self) -> None:
        """Run until `stop`: on a hint at once, coalesced; else after the long cycle."""
        while not self._stopping.is_set():
            began_ms, failures = self._clock.monotonic_ms(), self._failures
            # Separately: the work runs even if hints cannot be read.
            await self._guarded(self._take_hints)
            has_more = await self._guarded(self.spec.work)
            took_s = self._seconds_since(began_ms)
            self._burst_s = max(0.0, self._burst_s - took_s)
            pause_s = 0.0 if self._burst_s or self.spec.is_unfinished() else min(took_s, PAUSE_MAX_S)
            if not has_more:
                idle_ms = self._clock.monotonic_ms()
                await self._guarded(self._wait_for_hints)
                self._burst_s = min(BURST_S, self._burst_s + self._seconds_since(idle_ms))
            if self._failures == failures:
                self._failures = 0
            interval_s = max(self._interval_s(), took_s + pause_s)
            await self._guarded(partial(self._wait_interval, began_ms, interval_s))

    def stop(self) -> None:
        """End after the current run."""
        self._stopping.set()

    async def _guarded(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """The result of a step; False if it raises, which is reported."""
        try:
            return await step()
        except Exception as error:  # noqa: BLE001  # the next run must come
            self._report(error)
            return False

    def _report(self, error: Exception) -> None:
        self._failures += 1
        try:
            self._failed(TaskFailure(self.spec.name, error, self._failures))
        except Exception as worse:  # noqa: BLE001  # the callback may fail as well
            message = f"the failure of task {self.spec.name} could not be reported: {error!r}"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": worse})

    async def _take_hints(self) -> bool:
        taken = [await self._hints.take(hint) for hint in self.spec.hints]
        return any(taken)

    async def _wait_for_hints(self) -> bool:
        await self._until_stopped(self._hints.wait(self.spec.hints, timeout_s=self._longest_wait_s()))
        return True

    async def _wait_interval(self, began_ms: int, interval_s: float) -> bool:
        await self._until_stopped(self._clock.sleep(max(0.0, interval_s - self._seconds_since(began_ms))))
        return True

    def _seconds_since(self, began_ms: int) -> float:
        return (self._clock.monotonic_ms() - began_ms) / 1000

    def _longest_wait_s(self) -> float:
        try:
            due_s = self.spec.due()
        except Exception as error:  # noqa: BLE001  # the long cycle needs no due time
            self._report(error)
            due_s = None
        return self.spec.long_cycle_s if due_s is None else max(0.0, min(due_s, self.spec.long_cycle_s))

    def _interval_s(self) -> float:
        """The interval, with exponential backoff while runs fail."""
        doublings = min(self._failures, 16)
        return min(self.spec.long_cycle_s, self.spec.min_interval_s * (1 << doublings))

    async def _until_stopped(self, waiting: Awaitable[object]) -> None:
        """Wait, at most until `stop`; raises the error of `waiting`."""
        wait, stopped = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({wait, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (wait, stopped):
                task.cancel()
            await asyncio.gather(wait, stopped, return_exceptions=True)
        if not wait.cancelled():
            wait.result()

"""Periodic tasks: quick on a hint, always after a while.

A hint is taken before the work that it causes, so one that is set meanwhile
causes the next round. Events are never needed for progress: the long cycle works
without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

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
    """Something that a task met; its next round comes all the same."""

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
            began_ms, failures = self._clock.monotonic_ms(), self._failures
            # Each by itself: without hints there is work all the same.
            await self._survive(self._take_hints)
            if not await self._survive(self.spec.work):
                await self._survive(self._wait_for_hints)
            if self._failures == failures:
                self._failures = 0
            await self._survive(partial(self._keep_apart, began_ms))

    def stop(self) -> None:
        """Let the round that is under way be the last."""
        self._stopping.set()

    async def _survive(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """What a step says; one that raises must not end the task, and says no."""
        try:
            return await step()
        except Exception as error:  # noqa: BLE001  # whatever it is, the next round comes
            self._report(error)
            return False

    def _report(self, error: Exception) -> None:
        self._failures += 1
        try:
            self._failed(TaskFailure(self.spec.name, error, self._failures))
        except Exception as worse:  # noqa: BLE001  # whoever hears of failures may fail as well
            message = f"nobody could be told that task {self.spec.name} failed: {error!r}"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": worse})

    async def _take_hints(self) -> bool:
        taken = [await self._hints.take(hint) for hint in self.spec.hints]
        return any(taken)

    async def _wait_for_hints(self) -> bool:
        await self._until_stopped(self._hints.wait(self.spec.hints, timeout_s=self._longest_wait_s()))
        return True

    async def _keep_apart(self, began_ms: int) -> bool:
        passed_s = (self._clock.monotonic_ms() - began_ms) / 1000
        await self._until_stopped(self._clock.sleep(max(0.0, self._apart_s() - passed_s)))
        return True

    def _longest_wait_s(self) -> float:
        try:
            due_s = self.spec.due()
        except Exception as error:  # noqa: BLE001  # the long cycle comes without it
            self._report(error)
            due_s = None
        return self.spec.long_cycle_s if due_s is None else max(0.0, min(due_s, self.spec.long_cycle_s))

    def _apart_s(self) -> float:
        """Further apart while rounds fail: a store that is away gains nothing by being asked more often."""
        doublings = min(self._failures, 16)
        return min(self.spec.long_cycle_s, self.spec.apart_s * (1 << doublings))

    async def _until_stopped(self, waiting: Awaitable[object]) -> None:
        """Wait, but not beyond `stop`. Raises what the waiting raised."""
        wait, stopped = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({wait, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (wait, stopped):
                task.cancel()
            await asyncio.gather(wait, stopped, return_exceptions=True)
        if not wait.cancelled():
            wait.result()

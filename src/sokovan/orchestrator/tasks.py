"""Periodic tasks: quick on a hint, always after a while.

A hint is taken before the work that it causes, so one that is set meanwhile
causes the next round. Events are never needed for progress: the long cycle works
without any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a coordinator: what it does, what wakes it, how often it runs.

    `work` gives whether there is more to do at once. `apart_s` is the least time
    between two rounds: hints that come closer together are served together.
    """

    name: str
    work: Callable[[], Awaitable[bool]]
    hints: tuple[str, ...] = ()
    apart_s: float = 0.02
    long_cycle_s: float = 10.0


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
        self._stopped = False
        self._failures = 0

    async def run(self) -> None:
        """Work until `stop`: on a hint at once, coalesced; otherwise after the long cycle."""
        while not self._stopped:
            for hint in self.spec.hints:
                await self._hints.take(hint)
            more = await self.round()
            await self._clock.sleep(self.spec.apart_s)
            if not more and not self._stopped:
                await self._hints.wait(self.spec.hints, timeout_s=self.spec.long_cycle_s)

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
        self._stopped = True

"""The orchestrator: runs the coordinators' tasks, and owns nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sokovan.orchestrator.tasks import PeriodicTask, TaskFailure, TaskSpec
from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints


class SokovanOrchestrator:
    """Runs every task of every coordinator, each at its own pace."""

    def __init__(
        self,
        specs: Iterable[TaskSpec],
        *,
        clock: Clock,
        hints: Hints,
        failed: Callable[[TaskFailure], None],
    ) -> None:
        self.tasks = tuple(PeriodicTask(spec, clock=clock, hints=hints, failed=failed) for spec in specs)
        self._hints = hints
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin all tasks; each has its first round at once."""
        self._running = [asyncio.create_task(task.run(), name=task.spec.name) for task in self.tasks]

    async def stop(self) -> None:
        """Let every task finish its round, and wait for that."""
        for task in self.tasks:
            task.stop()
            for hint in task.spec.hints:
                await self._hints.set(hint)
        await asyncio.gather(*self._running)
        self._running = []

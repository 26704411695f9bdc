"""The orchestrator: runs the coordinators' tasks, and owns nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sokovan.domain.errors import SokovanError
from sokovan.orchestrator.coordinator import Coordinator
from sokovan.orchestrator.periodic_tasks import PeriodicTask, TaskFailure
from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints


class TaskEnded(SokovanError):
    """A task is over although nobody stopped it."""

    code = "task-ended"
    hint = "its work is not done any more: restart the manager, and report the defect"


class SokovanOrchestrator:
    """Runs every task of every coordinator, each at its own pace."""

    def __init__(
        self,
        coordinators: Iterable[Coordinator],
        *,
        clock: Clock,
        hints: Hints,
        failed: Callable[[TaskFailure], None],
    ) -> None:
        self._coordinators = tuple(coordinators)
        specs = [spec for coordinator in self._coordinators for spec in coordinator.tasks()]
        self._failed = failed
        self._tasks = tuple(PeriodicTask(spec, clock=clock, hints=hints, failed=failed) for spec in specs)
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin all tasks; each has its first round at once."""
        self._running = [asyncio.create_task(task.run(), name=task.spec.name) for task in self._tasks]
        for running in self._running:
            running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Let every task finish its round, then have the coordinators let go."""
        for task in self._tasks:
            task.stop()
        running, self._running = self._running, []
        await asyncio.gather(*running, return_exceptions=True)
        for coordinator in self._coordinators:
            await coordinator.close()

    def _ended(self, running: asyncio.Task[None]) -> None:
        """Whatever ends without being stopped must not do so in silence."""
        if running not in self._running:
            return
        cause = None if running.cancelled() else running.exception()
        ended = TaskEnded(f"task {running.get_name()} ended by itself: {cause!r}")
        ended.__cause__ = cause
        self._failed(TaskFailure(running.get_name(), ended, 1))

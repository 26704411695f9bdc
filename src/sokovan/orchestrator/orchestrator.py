"""The orchestrator: runs the periodic tasks of all coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sokovan.domain.errors import SokovanError
from sokovan.orchestrator.coordinator import Coordinator
from sokovan.orchestrator.periodic_tasks import PeriodicTask, TaskFailure
from sokovan.ports.environment import Clock
from sokovan.ports.hints import Hints


class TaskEnded(SokovanError):
    """A task ended without being stopped."""

    code = "task-ended"
    hint = "its work has stopped: restart the manager, and report the defect"


class SokovanOrchestrator:
    """Runs every task of every coordinator at its own interval."""

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
        """Start all tasks; each runs at once."""
        self._running = [asyncio.create_task(task.run(), name=task.spec.name) for task in self._tasks]
        for running in self._running:
            running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Wait until every task has finished its run, then close the coordinators."""
        for task in self._tasks:
            task.stop()
        running, self._running = self._running, []
        await asyncio.gather(*running, return_exceptions=True)
        for coordinator in self._coordinators:
            await coordinator.close()

    def _ended(self, running: asyncio.Task[None]) -> None:
        """Report a task that ended without being stopped."""
        if running not in self._running:
            return
        cause = None if running.cancelled() else running.exception()
        ended = TaskEnded(f"task {running.get_name()} ended unexpectedly: {cause!r}")
        ended.__cause__ = cause
        self._failed(TaskFailure(running.get_name(), ended, 1))

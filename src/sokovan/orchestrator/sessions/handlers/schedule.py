"""Gives waiting sessions a place, scaling group by scaling group."""

from __future__ import annotations

from sokovan.domain.lifecycle.session import Goal
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import by_coordinator

PREEMPTED = "preempted"


class ScheduleSessions:
    """Runs a scheduling cycle when something changed that may give somebody a place."""

    name = "schedule"

    def __init__(self, bench: HandlerContext, batches: BatchWriter, scheduler: Scheduler) -> None:
        self._bench, self._batches, self._scheduler = bench, batches, scheduler
        self._looked_at = 0

    async def handle(self, seen: Cycle) -> bool:
        """One cycle; who was placed is known at once, for the next step of the same round."""
        anybody = self._bench.live.count(Need.A_PLACE) > 0
        if anybody and self._batches.transactions != self._looked_at:
            await self._scheduler.look()  # what this round has freed may be taken in it
            self._looked_at = self._batches.transactions
        report = await self._scheduler.run(fence=self._batches.fence, always=seen.long, anybody=anybody)
        telemetry = self._bench.telemetry
        if report.placed:
            telemetry.count("placements_total", report.placed)
        if report.decide_s is not None:
            telemetry.observe("decide_seconds", report.decide_s)
            telemetry.gauge("sessions_waiting", report.waiting)
        for group, error in report.broken.items():
            telemetry.count("handler_failures_total", handler=self.name)
            detail = f"scaling group {group} cannot be scheduled: {error}"
            await self._bench.writer.note(report.stranded[group], by_coordinator("handler-failed", detail))
        for session_id, for_whom in report.evicted.items():
            change = by_coordinator(PREEMPTED, f"it makes room for {for_whom}")
            await self._bench.writer.set_goal(self.name, [session_id], Goal.STOP, change)
        if report.placed:
            await self._bench.reader.refresh()
        return bool(report.placed or report.evicted)

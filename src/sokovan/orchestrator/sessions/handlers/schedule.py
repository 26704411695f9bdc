"""Runs scheduling cycles for pending sessions."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.session_turns import READ_AT_ONCE
from sokovan.domain.records import DETAIL_MAX, SessionRecord
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import pending_kernels
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.scheduling.trace import Verdict

VALIDATION_FAILED = "validation-failed"
# Sessions cancelled in one cycle; the rest follows in the next.
_CANCELLED_AT_ONCE_MAX = 1_000


class ScheduleSessions:
    """Runs a scheduling cycle when something changed that may let a session start."""

    name = "schedule"

    def __init__(self, context: HandlerContext) -> None:
        self._sessions, self._reader, self._writer = context.sessions, context.reader, context.writer
        self._batches, self._scheduler, self._telemetry = context.batches, context.scheduler, context.telemetry
        self._on_failure, self._unfinished = context.on_failure, context.sessions.unfinished

    def clear(self) -> None:
        """Nothing to reset."""

    async def handle(self, cycle: CycleInput) -> bool:
        """Run one scheduling cycle, and cache placed sessions for the next handlers."""
        pending = self._sessions.count(Need.SCHEDULING) > 0 or len(self._reader.unread) > 0
        pending = pending or bool(self._scheduler.bookings())  # what is on their agents may have to leave
        serves_others, has_left = self._sessions.bulk.hidden, bool(self._scheduler.plans.unapplied)
        anew = (serves_others or has_left) and self._has_unplanned()
        if serves_others and not anew:
            return False
        if pending:
            # Slots freed in this cycle can be used in it.
            await self._scheduler.refresh(at_once=READ_AT_ONCE)
        always = cycle.long and self._scheduler.is_repeat_due()
        report = await self._scheduler.run(fence=self._batches.fence, always=always, pending=pending, anew=anew)
        placed = [one.session_id for one in report.sessions] if report.is_continued else []
        self._unfinished.update(dict.fromkeys((*self._scheduler.plans.unapplied, *placed)))
        if report.placed:
            self._telemetry.count("placements_total", report.placed)
        for refusal in report.refused.values():
            self._telemetry.count("allocations_refused_total", code=refusal.code)
        if report.decide_s is not None:
            self._telemetry.observe("decide_seconds", report.decide_s)
            self._telemetry.gauge("sessions_waiting", report.waiting)
        for group, error in report.failed_groups.items():
            self._telemetry.count("handler_failures_total", handler=self.name)
            detail = f"scaling group {group} cannot be scheduled: {error}"
            self._on_failure(self.name, SokovanError(detail, hint="fix or replace the plugin named above"))
            await self._writer.note(report.blocked[group], by_coordinator("handler-failed", detail))
        for record in report.evicted:
            receipt = record.evictions[-1]
            self._telemetry.count("evictions_total", receipt.kernels, action=receipt.action)
            self._sessions.put(record)
        # Their stop is requested in the next cycle, at once.
        self._sessions.mark_stale(record.session_id for record in report.evicted)
        cancelled = await self._cancel(report.never)
        for record in report.sessions:
            self._sessions.put(record)
        if report.unread:
            self._sessions.mark_stale(report.unread)
            await self._reader.refresh()
        return bool(report.placed or report.evicted or cancelled)

    def _has_unplanned(self) -> bool:
        """Whether a session waits that need not wait for the rest of the last plan."""
        return any(map(self._scheduler.plans.is_unplanned, self._sessions.needing(Need.SCHEDULING)))

    async def _cancel(self, never: Mapping[SessionId, Verdict]) -> bool:
        """Cancel sessions that can never start; one that runs already only stops growing."""
        unread = [one for one in never if self._sessions.get(one) is None] if len(self._reader.unread) else []
        if unread:
            self._sessions.mark_stale(unread[:_CANCELLED_AT_ONCE_MAX])
            await self._reader.refresh()
        found = [session for one in never if (session := self._sessions.get(one)) is not None]
        pending = [session for session in found if session.status is SessionStatus.PENDING]
        plans = self._writer.decide(
            self.name,
            pending[:_CANCELLED_AT_ONCE_MAX],
            lambda session: _withdrawal(session, never[session.session_id]),
            all_at_once=True,
        )
        return bool(await self._writer.move(self.name, plans))


def _withdrawal(session: SessionRecord, verdict: Verdict) -> list[SessionStep]:
    detail = "; ".join(f"{check.name}: {check.detail}" for check in verdict.never)
    change = by_coordinator(VALIDATION_FAILED, f"it can never start: {detail}"[:DETAIL_MAX])
    return [SessionStep(KernelTrigger.WITHDRAWN, change, pending_kernels(session))]

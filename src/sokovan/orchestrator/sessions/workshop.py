"""The session coordinator's tools and handlers, put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.agent_requests import AgentRequests
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.quarantine import Quarantine
from sokovan.orchestrator.sessions.agent_reports import AgentReports
from sokovan.orchestrator.sessions.config import Dependencies, Timing
from sokovan.orchestrator.sessions.context import HandlerContext
from sokovan.orchestrator.sessions.crew import Crew
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.session_cache import SessionCache
from sokovan.orchestrator.sessions.session_cache_reader import SessionCacheReader
from sokovan.orchestrator.sessions.session_writer import SessionWriter
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache


class Workshop:
    """What one term of leadership works with. `clear` ends the term."""

    def __init__(self, parts: Dependencies, pace: Timing, *, wake: Callable[[], Awaitable[None]]) -> None:
        self._telemetry = parts.telemetry
        self.live = SessionCache(self._moved)
        self.reader = SessionCacheReader(self.live, parts.store)
        self.batches = BatchWriter(parts.store)
        self.quarantine = Quarantine(parts.clock, policy=pace.quarantine)
        self.errands = AgentRequests(parts.clock, wake=wake, limits=pace.errands)
        self.reports = AgentReports()
        self.writer = SessionWriter(self.batches, self.live, self.quarantine)
        verdicts = VerdictCache(self.batches, parts.clock)
        self.scheduler = Scheduler(parts.snapshots, parts.allocator, verdicts, clock=parts.clock, decide=parts.decide)
        bench = HandlerContext(
            live=self.live,
            reader=self.reader,
            writer=self.writer,
            reports=self.reports,
            errands=self.errands,
            quarantine=self.quarantine,
            gateway=parts.gateway,
            clock=parts.clock,
            telemetry=parts.telemetry,
        )
        self.crew = Crew(parts, pace, bench, batches=self.batches, scheduler=self.scheduler)

    def next_due_s(self) -> float:
        """How long until there is work without any hint."""
        dues = (self.errands.pauses.next_due_s(), self.quarantine.next_due_s(), self.scheduler.next_due_s())
        return min([self.crew.next_due_s(), *(due for due in dues if due is not None)])

    async def clear(self) -> None:
        """Forget everything that was known, and give up what is under way."""
        self.batches.fence = None
        await self.errands.close()
        self.live.clear()
        self.reports.clear()
        self.quarantine.clear()
        self.scheduler.clear()
        self.crew.clear()

    def _moved(self, before: SessionRecord | None, after: SessionRecord) -> None:
        self.crew.moved(after)
        if before is None or before.status is after.status:
            return
        lasted_s = (after.since_ms - before.since_ms) / 1000
        self._telemetry.observe("state_seconds", lasted_s, state=before.status.value)
        if after.status in SESSION.terminal:
            result = "none" if after.result is None else after.result.value
            self._telemetry.count("sessions_ended_total", result=result)

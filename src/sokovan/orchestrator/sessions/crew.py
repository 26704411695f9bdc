"""Every handler of the session coordinator, in the order of their work."""

from __future__ import annotations

from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.handler import Handler
from sokovan.orchestrator.sessions.config import Dependencies, Timing
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.handlers.deadlines import EnforceDeadlines
from sokovan.orchestrator.sessions.handlers.dependencies import WithdrawDependents
from sokovan.orchestrator.sessions.handlers.garbage_collection import GarbageCollector
from sokovan.orchestrator.sessions.handlers.heartbeats import HeartbeatMonitor
from sokovan.orchestrator.sessions.handlers.housekeeping import Housekeeping
from sokovan.orchestrator.sessions.handlers.lost_agents import EndLostSessions
from sokovan.orchestrator.sessions.handlers.prepare import PrepareImages
from sokovan.orchestrator.sessions.handlers.schedule import ScheduleSessions
from sokovan.orchestrator.sessions.handlers.start import StartKernels
from sokovan.orchestrator.sessions.handlers.sweep import PeriodicSweep
from sokovan.orchestrator.sessions.handlers.terminate import TerminateSessions
from sokovan.orchestrator.sessions.handlers.watch import WatchKernels
from sokovan.orchestrator.sessions.scheduler import Scheduler


class Crew:
    """The handlers, and what they must be told beside their rounds.

    `first` work in every round; `again` once more, on what happened during it.
    """

    def __init__(
        self, parts: Dependencies, pace: Timing, bench: HandlerContext, *, batches: BatchWriter, scheduler: Scheduler
    ) -> None:
        self._silence = HeartbeatMonitor(bench, batches, patience=pace.patience)
        self._lost = EndLostSessions(bench, batches, parts.ids, lost_s=pace.lost_s, brake=pace.brake)
        self._overdue = EnforceDeadlines(bench, scheduler.scaling_groups)
        self._leftovers = GarbageCollector(bench, parts.store, retention=pace.retention)
        self._dependencies = WithdrawDependents(bench, parts.store)
        self._watch, terminate = WatchKernels(bench), TerminateSessions(bench)
        self._sweep = PeriodicSweep(
            bench,
            (self._silence, self._lost, self._overdue, self._leftovers, Housekeeping(bench, parts.store)),
            every_s=pace.sweep_s,
            handler_s=pace.handler_s,
            failed=parts.failed,
        )
        self.first: tuple[Handler[Cycle], ...] = (
            self._watch,
            self._sweep,
            terminate,
            self._dependencies,
            ScheduleSessions(bench, batches, scheduler),
            PrepareImages(bench, parts.images),
            StartKernels(bench, parts.launches),
        )
        self.again: tuple[Handler[Cycle], ...] = (self._watch, terminate, self._dependencies)

    def moved(self, session: SessionRecord) -> None:
        """A session is another than it was."""
        self._dependencies.moved(session)

    def next_due_s(self) -> float:
        """How long until time alone makes work."""
        return self._sweep.next_due_s()

    def clear(self) -> None:
        """Forget what belongs to a term of leadership."""
        for handler in (self._watch, self._sweep, self._silence, self._lost, self._overdue, self._leftovers):
            handler.clear()
        self._dependencies.clear()

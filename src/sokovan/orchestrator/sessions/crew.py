"""Every handler of the session coordinator, in the order of their work."""

from __future__ import annotations

from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.handler import Handler
from sokovan.orchestrator.sessions.config import CoordinatorParts, Pace
from sokovan.orchestrator.sessions.context import Round, Workbench
from sokovan.orchestrator.sessions.handlers.deadlines import EndOverdue
from sokovan.orchestrator.sessions.handlers.dependencies import WithdrawDependents
from sokovan.orchestrator.sessions.handlers.garbage_collection import ClearLeftovers
from sokovan.orchestrator.sessions.handlers.heartbeats import NoticeSilence
from sokovan.orchestrator.sessions.handlers.housekeeping import KeepHouse
from sokovan.orchestrator.sessions.handlers.lost_agents import EndLostSessions
from sokovan.orchestrator.sessions.handlers.prepare import PrepareImages
from sokovan.orchestrator.sessions.handlers.schedule import ScheduleSessions
from sokovan.orchestrator.sessions.handlers.start import StartKernels
from sokovan.orchestrator.sessions.handlers.sweep import Sweep
from sokovan.orchestrator.sessions.handlers.terminate import TerminateSessions
from sokovan.orchestrator.sessions.handlers.watch import WatchKernels
from sokovan.orchestrator.sessions.scheduler import Scheduler


class Crew:
    """The handlers, and what they must be told beside their rounds.

    `first` work in every round; `again` once more, on what happened during it.
    """

    def __init__(
        self, parts: CoordinatorParts, pace: Pace, bench: Workbench, *, batches: BatchWriter, scheduler: Scheduler
    ) -> None:
        self._silence = NoticeSilence(bench, batches, patience=pace.patience)
        self._lost = EndLostSessions(bench, batches, parts.ids, lost_s=pace.lost_s, brake=pace.brake)
        self._overdue = EndOverdue(bench, scheduler.scaling_groups)
        self._leftovers = ClearLeftovers(bench, parts.store, retention=pace.retention)
        self._dependencies = WithdrawDependents(bench, parts.store)
        self._watch, terminate = WatchKernels(bench), TerminateSessions(bench)
        self._sweep = Sweep(
            bench,
            (self._silence, self._lost, self._overdue, self._leftovers, KeepHouse(bench, parts.store)),
            every_s=pace.sweep_s,
            handler_s=pace.handler_s,
            failed=parts.failed,
        )
        self.first: tuple[Handler[Round], ...] = (
            self._watch,
            self._sweep,
            terminate,
            self._dependencies,
            ScheduleSessions(bench, batches, scheduler),
            PrepareImages(bench, parts.images),
            StartKernels(bench, parts.launches),
        )
        self.again: tuple[Handler[Round], ...] = (self._watch, terminate, self._dependencies)

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

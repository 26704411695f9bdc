"""Moves kernels by agent reports: started, ended, lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import Exit, end_steps, exit_steps, failed_start
from sokovan.orchestrator.sessions.session_cache import REPORTED, Need, needs_of
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator, by_report

KERNEL_LOST = "kernel-lost"
# A session with more kernels than this is checked at most once in a millisecond per `_KERNELS_PER_MS` of them.
_PACED_ABOVE = 500
_KERNELS_PER_MS = 20


class WatchKernels:
    """Applies agent reports to kernels.

    A kernel that its agent does not list is lost: at once if a later incarnation reports,
    which has scanned its whole machine; otherwise after it is missing from two reports
    and for `missing_s`.
    """

    name = "watch"

    def __init__(self, context: HandlerContext, *, missing_s: float = 10.0) -> None:
        self._sessions, self._writer = context.sessions, context.writer
        self._reports, self._clock, self._bulk = context.reports, context.clock, context.sessions.bulk
        self._missing_ms = round(missing_s * 1000)
        # When a kernel was first missing, and from which report.
        self._missed: dict[KernelId, tuple[int, int]] = {}
        self._partly_ended: dict[SessionId, int] = {}
        self._noted: dict[SessionId, int] = {}
        # When large sessions are checked again, and those that changed meanwhile.
        self._next_ms: dict[SessionId, int] = {}
        self._postponed: dict[SessionId, None] = {}

    async def handle(self, cycle: CycleInput) -> bool:
        """Check the sessions that changed; in a long cycle all that do not just wait."""
        self._partly_ended.clear()
        plans = self._writer.decide(self.name, self._candidates(cycle), self._steps)
        for session_id in self._writer.left:  # the rest moves in the next cycle
            self._next_ms.pop(session_id, None)
            self._postponed[session_id] = None
        moved = await self._writer.move(self.name, plans)
        await self._note_partly_ended()
        if cycle.long:
            self._remove_ended()
        return bool(moved)

    def clear(self) -> None:
        """Forget missing kernels and notes."""
        for known in (self._missed, self._noted, self._next_ms, self._postponed):
            known.clear()

    def _candidates(self, cycle: CycleInput) -> Iterable[SessionRecord]:
        ids = dict.fromkeys((*self._postponed, *self._sessions.take_changed()))
        if cycle.long:
            return list(self._sessions.begun.values())
        for kernel_id in (*cycle.diff.kernels, *self._missed):
            kernel = self._sessions.kernel(kernel_id)
            if kernel is not None:
                ids[kernel.session_id] = None
        return self._paced([session for one in ids if (session := self._sessions.get(one)) is not None])

    def _paced(self, sessions: Sequence[SessionRecord]) -> list[SessionRecord]:
        """The sessions that are checked now; large ones not in every round, and none that are hidden.

        Each check looks at all of its kernels, so that reports are collected.
        """
        now_ms, due = self._clock.monotonic_ms(), list[SessionRecord]()
        self._postponed.clear()
        for session in sessions:
            hidden = self._bulk.hides(session.session_id)
            if hidden or self._next_ms.get(session.session_id, 0) > now_ms:
                self._postponed[session.session_id] = None
                continue
            due.append(session)
            if len(session.kernels) > _PACED_ABOVE:
                self._next_ms[session.session_id] = now_ms + len(session.kernels) // _KERNELS_PER_MS
        return due

    def _steps(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        exits: dict[KernelId, Exit] = {}
        started: list[KernelId] = []
        lost: list[KernelId] = []
        looked_up, missed = self._reports.looked_up, self._missed
        for kernel in session.kernels:
            if kernel.status not in REPORTED:
                continue
            report, is_current = looked_up(kernel)
            if report is None:
                lost += [kernel.kernel_id] if self._is_lost(kernel) else []
            elif not is_current:
                # A later incarnation has adopted it, or the report is of an earlier one: the store knows which.
                self._sessions.mark_stale([session.session_id])
            else:
                if missed:
                    missed.pop(kernel.kernel_id, None)
                if report.exit_code is not None:
                    exits[kernel.kernel_id] = Exit(report.exit_code, report.reason)
                if kernel.status is KernelStatus.CREATING and (report.running or report.exit_code is not None):
                    started.append(kernel.kernel_id)
        return self._conclude(session, exits, started, lost)

    def _conclude(
        self, session: SessionRecord, exits: dict[KernelId, Exit], started: list[KernelId], lost: list[KernelId]
    ) -> tuple[SessionStep, ...]:
        gone = SessionStep(
            KernelTrigger.FAILED, by_report(KERNEL_LOST, "its agent does not list it any more"), tuple(lost)
        )
        if Need.TERMINATION in needs_of(session):
            return *exit_steps(session, exits), gone
        steps = end_steps(session, exits)
        if steps:
            return *steps, gone
        if lost:
            missing = frozenset(lost)
            creating = all(one.status is KernelStatus.CREATING for one in session.kernels if one.kernel_id in missing)
            return (failed_start(session, gone),) if creating and not exits else (gone, *exit_steps(session, exits))
        if exits:
            self._partly_ended[session.session_id] = len(exits)
        return (SessionStep(KernelTrigger.STARTED, by_report(), tuple(started)),)

    def _is_lost(self, kernel: KernelRecord) -> bool:
        reports = self._reports
        if reports.fenced(kernel):
            return True
        state = None if kernel.agent_id is None else reports.state(kernel.agent_id)
        if kernel.status is not KernelStatus.RUNNING or state is None or state.partial or not reports.current(kernel):
            return False  # the creation of a CREATING kernel is requested again
        now_ms = self._clock.monotonic_ms()
        since_ms, sequence = self._missed.setdefault(kernel.kernel_id, (now_ms, state.sequence))
        return state.sequence > sequence and now_ms - since_ms >= self._missing_ms

    async def _note_partly_ended(self) -> None:
        """Note, once per count, that a session continues although some kernels have ended."""
        for session_id, ended in self._partly_ended.items():
            session = self._sessions.get(session_id)
            if session is None or self._noted.get(session_id) == ended:
                continue
            self._noted[session_id] = ended
            policy = session.spec.ends_with.value
            detail = f"{ended} of {len(session.kernels)} kernels have ended; the session ends with {policy} of them"
            await self._writer.note([session_id], by_coordinator("kernels-ended", detail))

    def _remove_ended(self) -> None:
        sessions = self._sessions
        self._missed = {one: mark for one, mark in self._missed.items() if sessions.kernel(one) is not None}
        self._noted = {one: count for one, count in self._noted.items() if sessions.get(one) is not None}
        self._next_ms = {one: at_ms for one, at_ms in self._next_ms.items() if sessions.get(one) is not None}

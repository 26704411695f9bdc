"""Compares kernels with what their agents report: begun, ended, lost."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.endings import Exit, ending, leaving
from sokovan.orchestrator.sessions.session_cache import Need, needs_of
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator, by_report

KERNEL_LOST = "kernel-lost"
_WATCHED = frozenset({KernelStatus.CREATING, KernelStatus.RUNNING})


class WatchKernels:
    """Moves kernels along what was seen of them.

    That a kernel is not listed means something only if its agent would list it: at once
    if a later incarnation speaks, which has looked at its whole machine; otherwise once
    it is missing from two reports, and for `missing_s`.
    """

    name = "watch"

    def __init__(self, bench: HandlerContext, *, missing_s: float = 10.0) -> None:
        self._bench, self._missing_ms = bench, round(missing_s * 1000)
        # When a kernel was first missed, and in which report.
        self._missed: dict[KernelId, tuple[int, int]] = {}
        self._waits: dict[SessionId, int] = {}
        self._noted: dict[SessionId, int] = {}

    async def handle(self, seen: Cycle) -> bool:
        """Look at what changed; at everything in a long round."""
        writer = self._bench.writer
        self._waits.clear()
        plans = writer.decide(self.name, self._candidates(seen), self._steps)
        moved = await writer.move(self.name, plans)
        await self._note_waits()
        if seen.long:
            self._tidy()
        return bool(moved)

    def clear(self) -> None:
        """Forget what was seen."""
        self._missed.clear()
        self._noted.clear()

    def _candidates(self, seen: Cycle) -> Iterable[SessionRecord]:
        live = self._bench.live
        ids = dict.fromkeys(live.take_touched())
        if seen.long:
            return list(live.all())
        for kernel_id in (*seen.news.kernels, *self._missed):
            session_id = live.session_of(kernel_id)
            if session_id is not None:
                ids[session_id] = None
        return [session for one in ids if (session := live.get(one)) is not None]

    def _steps(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        exits: dict[KernelId, Exit] = {}
        begun: list[KernelId] = []
        lost: list[KernelId] = []
        for kernel in session.kernels:
            if kernel.status not in _WATCHED:
                continue
            report = self._bench.reports.listed(kernel)
            if report is None:
                lost += [kernel.kernel_id] if self._is_lost(kernel) else []
            elif not self._bench.reports.current(kernel):
                # A later incarnation has taken it over, or an earlier one lags behind: the store knows which.
                self._bench.live.doubt([session.session_id])
            else:
                self._missed.pop(kernel.kernel_id, None)
                if report.exit_code is not None:
                    exits[kernel.kernel_id] = Exit(report.exit_code, report.reason)
                if kernel.status is KernelStatus.CREATING and (report.running or report.exit_code is not None):
                    begun.append(kernel.kernel_id)
        return self._judged(session, exits, begun, lost)

    def _judged(
        self, session: SessionRecord, exits: dict[KernelId, Exit], begun: list[KernelId], lost: list[KernelId]
    ) -> tuple[SessionStep, ...]:
        gone = SessionStep(
            KernelTrigger.FAILED, by_report(KERNEL_LOST, "its agent does not list it any more"), tuple(lost)
        )
        over = leaving(session, exits)
        if Need.AN_END in needs_of(session):
            return *over, gone
        steps = ending(session, exits)
        if steps:
            return *steps, gone
        if lost:
            return gone, *over
        if exits:
            self._waits[session.session_id] = len(exits)
        return (SessionStep(KernelTrigger.STARTED, by_report(), tuple(begun)),)

    def _is_lost(self, kernel: KernelRecord) -> bool:
        reports = self._bench.reports
        if reports.fenced(kernel):
            return True
        state = None if kernel.agent_id is None else reports.state(kernel.agent_id)
        if kernel.status is not KernelStatus.RUNNING or state is None or not reports.current(kernel):
            return False  # one that is CREATING is asked for again
        now_ms = self._bench.clock.monotonic_ms()
        since_ms, sequence = self._missed.setdefault(kernel.kernel_id, (now_ms, state.sequence))
        return state.sequence > sequence and now_ms - since_ms >= self._missing_ms

    async def _note_waits(self) -> None:
        """Say once, per number of kernels, that a session goes on without some of its kernels."""
        for session_id, ended in self._waits.items():
            session = self._bench.live.get(session_id)
            if session is None or self._noted.get(session_id) == ended:
                continue
            self._noted[session_id] = ended
            policy = session.spec.ends_with.value
            detail = f"{ended} of {len(session.kernels)} kernels have ended; the session ends with {policy} of them"
            await self._bench.writer.note([session_id], by_coordinator("kernels-ended", detail))

    def _tidy(self) -> None:
        live = self._bench.live
        self._missed = {kernel: mark for kernel, mark in self._missed.items() if live.session_of(kernel) is not None}
        self._noted = {one: count for one, count in self._noted.items() if live.get(one) is not None}

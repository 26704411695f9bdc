"""Withdraws sessions that wait for one which has failed: they can never start."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.record import SessionRecord, SessionResult
from sokovan.orchestrator.sessions.moves import Step, by_coordinator
from sokovan.orchestrator.sessions.rounds import Round, Workbench
from sokovan.ports.sessions import SessionFilter
from sokovan.ports.storage import Store

DEPENDENCY_FAILED = "dependency-failed"


class WithdrawDependents:
    """Keeps account of who waits for whom, and looks when one of them ends."""

    name = "dependencies"

    def __init__(self, bench: Workbench, store: Store) -> None:
        self._bench, self._store = bench, store
        self._dependents: dict[SessionId, dict[SessionId, None]] = {}
        self._unsure: dict[SessionId, None] = {}

    def moved(self, session: SessionRecord) -> None:
        """A session is not what it was: it waits, or somebody may wait for it."""
        if session.status is SessionStatus.PENDING and session.spec.dependencies:
            self._unsure[session.session_id] = None
            for other in session.spec.dependencies:
                self._dependents.setdefault(other, {})[session.session_id] = None
        elif session.status in SESSION.terminal:
            self._unsure.update(self._dependents.pop(session.session_id, {}))

    def clear(self) -> None:
        """Forget who waits for whom."""
        self._dependents.clear()
        self._unsure.clear()

    async def handle(self, seen: Round) -> bool:
        """Look at those whose dependencies have moved, and then at who depends on them."""
        del seen
        moved = False
        while self._unsure:
            moved |= await self._look()
        return moved

    async def _look(self) -> bool:
        waiting = [session for one in self._unsure if (session := self._bench.live.get(one)) is not None]
        self._unsure.clear()
        waiting = [session for session in waiting if session.status is SessionStatus.PENDING]
        if not waiting:
            return False
        failed = await self._failed({one for session in waiting for one in session.spec.dependencies})
        plans = self._bench.writer.decide(self.name, waiting, lambda session: _withdrawn(session, failed))
        return bool(await self._bench.writer.move(self.name, plans))

    async def _failed(self, ids: Iterable[SessionId]) -> set[SessionId]:
        wanted = SessionFilter(ids=sorted(ids), statuses=tuple(SESSION.terminal))
        records = await self._store.read(lambda unit: unit.sessions.page(wanted, limit=len(wanted.ids)))
        return {record.session_id for record in records if record.result is not SessionResult.SUCCESS}


def _withdrawn(session: SessionRecord, failed: set[SessionId]) -> list[Step]:
    causes = [one for one in session.spec.dependencies if one in failed]
    if not causes:
        return []
    waiting = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status is KernelStatus.PENDING)
    detail = f"it depends on {', '.join(causes[:5])}, which did not end well"
    return [Step(KernelTrigger.WITHDRAWN, by_coordinator(DEPENDENCY_FAILED, detail), waiting)]

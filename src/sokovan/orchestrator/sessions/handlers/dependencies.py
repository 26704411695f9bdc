"""Withdraws sessions that wait for one which has failed: they can never start."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import SessionRecord, SessionResult
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store

DEPENDENCY_FAILED = "dependency-failed"


class WithdrawDependents:
    """Keeps account of who waits for whom, and looks when one of them ends."""

    name = "dependencies"

    def __init__(self, bench: HandlerContext, store: Store) -> None:
        self._bench, self._store = bench, store
        self._dependents: dict[SessionId, dict[SessionId, None]] = {}
        # Who must be looked at; and who was, and must leave, but could not be moved yet.
        self._unsure: dict[SessionId, None] = {}
        self._stuck: dict[SessionId, None] = {}

    def moved(self, session: SessionRecord) -> None:
        """A session is not what it was: it waits, or somebody may wait for it."""
        waits = session.status is SessionStatus.PENDING
        for other in session.spec.dependencies:
            if waits:
                self._unsure[session.session_id] = None
                self._dependents.setdefault(other, {})[session.session_id] = None
            else:
                self._waits_no_more(session.session_id, other)
        if session.status in SESSION.terminal:
            self._unsure.update(self._dependents.pop(session.session_id, {}))

    def clear(self) -> None:
        """Forget who waits for whom."""
        self._dependents.clear()
        self._unsure.clear()
        self._stuck.clear()

    async def handle(self, seen: Cycle) -> bool:
        """Look at those whose dependencies have moved, and then at who depends on them."""
        del seen
        moved = False
        again = [one for one in self._stuck if self._bench.quarantine.admits(one)]
        for one in again:
            self._unsure[one] = self._stuck.pop(one)
        while self._unsure:
            moved |= await self._look()
        return moved

    async def _look(self) -> bool:
        looked, self._unsure = self._unsure, {}
        try:
            return await self._withdraw(looked)
        except BaseException:  # also a deadline: nobody else will ever say that these must be looked at
            self._unsure = looked | self._unsure
            raise

    async def _withdraw(self, ids: Iterable[SessionId]) -> bool:
        found = [session for one in ids if (session := self._bench.live.get(one)) is not None]
        waiting = [session for session in found if session.status is SessionStatus.PENDING]
        if not waiting:
            return False
        failed = await self._failed({one for session in waiting for one in session.spec.dependencies})
        hopeless = [session for session in waiting if not failed.isdisjoint(session.spec.dependencies)]
        plans = self._bench.writer.decide(self.name, hopeless, lambda session: _withdrawn(session, failed))
        moved = await self._bench.writer.move(self.name, plans)
        gone = {session.session_id for session in moved}
        self._stuck.update({one.session_id: None for one in hopeless if one.session_id not in gone})
        return bool(moved)

    def _waits_no_more(self, session_id: SessionId, other: SessionId) -> None:
        waiting = self._dependents.get(other, {})
        waiting.pop(session_id, None)
        if not waiting:
            self._dependents.pop(other, None)

    async def _failed(self, ids: Iterable[SessionId]) -> set[SessionId]:
        wanted = SessionFilter(ids=sorted(ids), statuses=tuple(SESSION.terminal))
        records = await self._store.read(lambda unit: unit.sessions.page(wanted, limit=len(wanted.ids)))
        return {record.session_id for record in records if record.result is not SessionResult.SUCCESS}


def _withdrawn(session: SessionRecord, failed: set[SessionId]) -> list[SessionStep]:
    causes = [one for one in session.spec.dependencies if one in failed]
    if not causes:
        return []
    waiting = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status is KernelStatus.PENDING)
    detail = f"it depends on {', '.join(causes[:5])}, which did not end well"
    return [SessionStep(KernelTrigger.WITHDRAWN, by_coordinator(DEPENDENCY_FAILED, detail), waiting)]

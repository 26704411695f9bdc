"""Withdraws pending sessions whose dependency has failed: they can never start.

A dependency is a session, or an array, which has failed when one of its sessions has.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import SessionRecord, SessionResult
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import pending_kernels
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

DEPENDENCY_FAILED = "dependency-failed"
# Steps of one run, and sessions of a step. A chain of dependents takes a step for each: the rest follows in the next
# cycle, and the other handlers are run in between.
STEPS_MAX = 8
STEP_SESSIONS_MAX = 200


class WithdrawDependents:
    """Indexes which sessions depend on which, and checks them when a dependency ends.

    `unfinished` says whether the last run left sessions to the next one.
    """

    name = "dependencies"

    def __init__(self, context: HandlerContext) -> None:
        self._sessions, self._writer = context.sessions, context.writer
        self._quarantine, self._store = context.quarantine, context.store
        # By the id of a session or an array.
        self._dependents: dict[str, dict[SessionId, None]] = {}
        # Sessions to check; and sessions that must be withdrawn but could not be moved yet.
        self._unchecked: dict[SessionId, None] = {}
        self._stuck: dict[SessionId, None] = {}
        self.unfinished = False

    def session_changed(self, session: SessionRecord) -> None:
        """Update the index: the session became pending, stopped waiting, or ended."""
        waits = session.status is SessionStatus.PENDING
        for other in session.spec.awaited:
            if waits:
                self._unchecked[session.session_id] = None
                self._dependents.setdefault(other, {})[session.session_id] = None
            else:
                self._remove(session.session_id, other)
        if session.status in SESSION.terminal:
            self._unchecked.update(self._dependents.pop(session.session_id, {}))
            array = session.spec.array
            if array is not None and session.result is not SessionResult.SUCCESS:
                self._unchecked.update(self._dependents.get(array.array_id, {}))

    def clear(self) -> None:
        """Forget the index."""
        self._dependents.clear()
        self._unchecked.clear()
        self._stuck.clear()
        self.unfinished = False

    async def handle(self, cycle: CycleInput) -> bool:
        """Check sessions whose dependencies have changed, then those that depend on them."""
        del cycle
        moved, self.unfinished = False, False
        retried = [one for one in self._stuck if self._quarantine.admits(one)]
        for one in retried:
            self._unchecked[one] = self._stuck.pop(one)
        for _ in range(STEPS_MAX):
            if not self._unchecked:
                break
            moved |= await self._check()
        self.unfinished = bool(self._unchecked)
        return moved

    async def _check(self) -> bool:
        checked = dict.fromkeys(islice(self._unchecked, STEP_SESSIONS_MAX))
        for one in checked:
            del self._unchecked[one]
        try:
            return await self._withdraw(checked)
        except BaseException:  # also a timeout: nothing else would mark these as unchecked again
            self._unchecked = checked | self._unchecked
            raise

    async def _withdraw(self, ids: Iterable[SessionId]) -> bool:
        found = [session for one in ids if (session := self._sessions.get(one)) is not None]
        pending = [session for session in found if session.status is SessionStatus.PENDING]
        if not pending:
            return False
        failed = await self._failed({one for session in pending for one in session.spec.awaited})
        blocked = [session for session in pending if not failed.isdisjoint(session.spec.awaited)]
        plans = self._writer.decide(self.name, blocked, lambda session: _withdrawal(session, failed), all_at_once=True)
        moved = await self._writer.move(self.name, plans)
        gone = {session.session_id for session in moved}
        self._stuck.update({one.session_id: None for one in blocked if one.session_id not in gone})
        return bool(moved)

    def _remove(self, session_id: SessionId, other: str) -> None:
        dependents = self._dependents.get(other, {})
        dependents.pop(session_id, None)
        if not dependents:
            self._dependents.pop(other, None)

    async def _failed(self, ids: Iterable[str]) -> set[str]:
        ended = SessionFilter(ids=sorted(map(SessionId, ids)), statuses=tuple(SESSION.terminal))

        async def work(unit: UnitOfWork) -> set[str]:
            records = await unit.sessions.page(ended, limit=len(ended.ids))
            arrays = await unit.arrays.outcomes(ended.ids)
            failed = {str(record.session_id) for record in records if record.result is not SessionResult.SUCCESS}
            return failed | {array for array, succeeded in arrays.items() if not succeeded}

        return await self._store.read(work)


def _withdrawal(session: SessionRecord, failed: set[str]) -> list[SessionStep]:
    causes = [one for one in session.spec.awaited if one in failed]
    if not causes:
        return []
    detail = f"it depends on {', '.join(causes[:5])}, which did not succeed"
    change = by_coordinator(DEPENDENCY_FAILED, detail)
    return [SessionStep(KernelTrigger.WITHDRAWN, change, pending_kernels(session))]

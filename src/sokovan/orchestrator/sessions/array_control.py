"""Changes all sessions of an array, in bounded transactions.

Each change is idempotent, so that a request that was interrupted can be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import RELEASED, ArrayRecord, Change, SessionRecord
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.user_changes import change_by, may_change, termination
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork

AT_ONCE = 500
PENDING = (SessionStatus.PENDING,)
STARTED = tuple(one for one in SessionStatus if one not in {SessionStatus.PENDING, *SESSION.terminal})

# Changes some sessions; whether any of them changed.
_Step: TypeAlias = Callable[[UnitOfWork, Sequence[SessionRecord]], Awaitable[bool]]


class ArrayControl:
    """Ends and releases the sessions of arrays."""

    def __init__(self, store: Store, hints: Hints, tasks: UncancellableTasks) -> None:
        self._store, self._hints, self._tasks = store, hints, tasks

    async def end(self, array: ArrayRecord, caller: Caller, *, forced: bool = False, reason: str = "") -> None:
        """Request the termination of all sessions of an array.

        Raises ObjectNotFound, also for an array of another user.
        """
        _require_access(array, caller)
        goal, change = termination(caller, forced=forced, reason=reason)
        await self._tasks.run(self._end(array, goal, change))

    async def _end(self, array: ArrayRecord, goal: Goal, change: Change) -> None:

        async def step(unit: UnitOfWork, sessions: Sequence[SessionRecord]) -> bool:
            return bool(await unit.sessions.set_goals([one.session_id for one in sessions], goal, change))

        # Those that wait come first, so that none starts meanwhile.
        for statuses in (PENDING, STARTED):
            wanted = SessionFilter(array_id=array.array_id, statuses=statuses)
            await self._each(wanted, step, _entry("array.terminate", array, change))

    async def release(self, array: ArrayRecord, caller: Caller, *, gates: Sequence[str] = ()) -> None:
        """Release gates of all held sessions of an array, all gates if none are named.

        Raises ObjectNotFound, also for an array of another user.
        """
        _require_access(array, caller)
        await self._tasks.run(self._release(array, caller, gates))

    async def _release(self, array: ArrayRecord, caller: Caller, gates: Sequence[str]) -> None:
        change = change_by(caller, RELEASED, ", ".join(gates) or "all gates")

        async def step(unit: UnitOfWork, sessions: Sequence[SessionRecord]) -> bool:
            opened = gates or sorted({gate for one in sessions for gate in one.spec.gates})
            held = [one.session_id for one in sessions if not set(one.spec.gates).isdisjoint(opened)]
            return bool(held and await unit.sessions.release_many(held, opened, change))

        wanted = SessionFilter(array_id=array.array_id, statuses=PENDING)
        await self._each(wanted, step, _entry("array.release", array, change))

    async def _each(self, wanted: SessionFilter, step: _Step, entry: AuditEntry) -> None:
        """Apply a step to all matching sessions, some of them per transaction."""
        after: int | None = None

        async def work(unit: UnitOfWork) -> tuple[int | None, bool]:
            page = await unit.sessions.page(wanted, limit=AT_ONCE, after=after)
            changed = await step(unit, page)
            if changed:
                await unit.audit.append(entry)
            return page[-1].place if len(page) == AT_ONCE else None, changed

        while True:
            after, changed = await self._store.run(work)
            if changed:
                await self._hints.set(SESSIONS_HINT)
            if after is None:
                return


def _require_access(array: ArrayRecord, caller: Caller) -> None:
    if not may_change(array.owner, caller):
        raise ObjectNotFound(what="array", name=array.name)


def _entry(action: str, array: ArrayRecord, change: Change) -> AuditEntry:
    detail = {"name": array.name, "code": change.code, "reason": change.detail}
    return AuditEntry(change.who, action, array.array_id, "done", detail=detail)

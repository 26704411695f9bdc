"""Changes that users request: who may make them, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.access import AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import (
    DETAIL_MAX,
    FORCED_BY_USER,
    USER_REQUESTED,
    Change,
    SessionRecord,
    SessionSummary,
)
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork

# Sessions that one transaction ends, and kernels that one ends or stores: other writers wait for it.
ENDED_TOGETHER = 200
KERNELS_TOGETHER = 2_000

# The outcome for a session that was to end: as it is then, or why it was refused.
EndOutcome: TypeAlias = SessionRecord | SessionSummary | ObjectNotFound


def may_change(owner: Owner, caller: Caller) -> bool:
    """Whether the caller may change the sessions of an owner."""
    user = caller.owner
    subject = AccessSubject(user=user.user, domain=user.domain, role=caller.role, groups=caller.groups)
    ownership = Ownership(domain=owner.domain, user=owner.user, group=owner.group)
    return may(subject, Action.CHANGE, ObjectKind.SESSION, ownership)


def change_by(caller: Caller, code: str, detail: str) -> Change:
    """The author and the reason of a change, for histories."""
    return Change(who=caller.owner.user, by=Cause.CONTROLLER, code=code, detail=detail[:DETAIL_MAX])


def termination(caller: Caller, *, forced: bool, reason: str) -> tuple[Goal, Change]:
    """The goal of a session that is to end, and its author."""
    goal, code = (Goal.FORCE, FORCED_BY_USER) if forced else (Goal.STOP, USER_REQUESTED)
    return goal, change_by(caller, code, reason)


class Terminations:
    """Requests the end of many sessions, in bounded transactions.

    Each part is complete by itself: what follows an interruption is still to be requested, and
    what was requested may be requested again.
    """

    def __init__(self, store: Store, hints: Hints, tasks: UncancellableTasks) -> None:
        self._store, self._hints, self._tasks = store, hints, tasks

    async def request(
        self, sessions: Sequence[SessionSummary], caller: Caller, *, forced: bool = False, reason: str = ""
    ) -> list[EndOutcome]:
        """Request the end of sessions that were looked up; the outcome of each, in order.

        Each is judged for itself: one of another user counts as not found, and one that has ended
        is no failure.
        """
        goal, change = termination(caller, forced=forced, reason=reason)
        allowed = {one.session_id: one for one in sessions if may_change(one.spec.owner, caller)}
        changed: dict[SessionId, SessionRecord] = {}
        for part in _parts(list(allowed.values())):
            written = await self._tasks.run(self._end([one.session_id for one in part], goal, change))
            changed |= {one.session_id: one for one in written}
        return [
            changed.get(one.session_id, one)
            if one.session_id in allowed
            else ObjectNotFound(what="session", name=one.session_id)
            for one in sessions
        ]

    async def _end(self, session_ids: Sequence[SessionId], goal: Goal, change: Change) -> Sequence[SessionRecord]:
        """End some sessions in one transaction; those that changed."""

        async def work(unit: UnitOfWork) -> Sequence[SessionRecord]:
            changed = await unit.sessions.set_goals(session_ids, goal, change)
            if changed:
                await unit.audit.append(*[change_entry("session.terminate", one.session_id, change) for one in changed])
            return changed

        changed = await self._store.run(work)
        if changed:
            await self._hints.set(SESSIONS_HINT)
        return changed


def change_entry(action: str, session_id: SessionId, change: Change) -> AuditEntry:
    """The audit entry of a change of a session."""
    return AuditEntry(change.who, action, session_id, "done", detail={"code": change.code, "reason": change.detail})


def _parts(sessions: Sequence[SessionSummary]) -> Iterator[list[SessionSummary]]:
    """The sessions in parts that one transaction ends, the first ones first."""
    part: list[SessionSummary] = []
    kernels = 0
    for one in sessions:
        if part and (len(part) == ENDED_TOGETHER or kernels + one.spec.size > KERNELS_TOGETHER):
            yield part
            part, kernels = [], 0
        part.append(one)
        kernels += one.spec.size
    if part:
        yield part

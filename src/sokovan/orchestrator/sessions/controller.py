"""Entry point for sessions: submit, release, terminate, cancel, explain.

The controller only records goals; the coordinator, woken by a hint, carries them out.
A write and its hint are one uncancellable task: without the hint, the work of a client
that left at the commit would wait for the long cycle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sokovan.domain.errors import Conflict, ObjectNotFound, SokovanError
from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import RELEASED, USER_REQUESTED, SessionRecord
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.array_control import ArrayControl
from sokovan.orchestrator.sessions.explain.explanations import Explanation, PlannedSession, WaitingSummary
from sokovan.orchestrator.sessions.explain.plan import DryCycles, DryRuns, DryRunUnavailable, planned_session
from sokovan.orchestrator.sessions.explain.why import WhyService, visible_names
from sokovan.orchestrator.sessions.intake.submissions import KeyedRequest, Submission, Submissions
from sokovan.orchestrator.sessions.user_changes import Terminations, change_by, change_entry, may_change, termination
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.scheduling.cluster_changes import ClusterChanges


class SchedulingController:
    """Validates and stores session requests, and marks sessions for termination."""

    def __init__(
        self,
        store: Store,
        submissions: Submissions,
        *,
        hints: Hints,
        dry_runs: DryRuns | None = None,
    ) -> None:
        self._store, self._submissions, self._hints, self._dry_runs = store, submissions, hints, dry_runs
        self._why = WhyService(store, dry_runs)
        self._tasks = UncancellableTasks()
        self.terminations = Terminations(store, hints, self._tasks)
        self.arrays = ArrayControl(store, hints, self._tasks, submissions.arrays)

    def allow_sharing(self) -> None:
        """Let all users submit to agents that do not isolate their kernels."""
        self._submissions.allow_sharing()

    async def enqueue(self, request: SessionRequest, caller: Caller, *, key: str | None = None) -> SessionRecord:
        """Store a PENDING session; see `submit`."""
        return (await self.submit(request, caller, key=key)).session

    async def submit(self, request: SessionRequest, caller: Caller, *, key: str | None = None) -> Submission:
        """Store a PENDING session, or those of an array; says whether it is new.

        The same request with the same key returns the session it created before. A session
        that fits no agent is accepted: its verdict says so, and it starts when a suitable
        agent joins. Raises InvalidRequest, IdempotencyConflict.
        """
        return await self._tasks.run(self._submit(request, caller, key))

    async def _submit(self, request: SessionRequest, caller: Caller, key: str | None) -> Submission:
        submission = await self._submissions.submit(request, caller, key=key)
        if submission.fresh:
            await self._hints.set(SESSIONS_HINT)
        return submission

    async def submit_many(
        self, requests: Sequence[KeyedRequest], caller: Caller
    ) -> Sequence[Submission | SokovanError]:
        """Store PENDING sessions; each is accepted or refused for itself.

        None of the requests may be for an array.
        """
        return await self._tasks.run(self._submit_many(requests, caller))

    async def _submit_many(
        self, requests: Sequence[KeyedRequest], caller: Caller
    ) -> Sequence[Submission | SokovanError]:
        outcomes = await self._submissions.submit_many(requests, caller)
        if any(isinstance(one, Submission) and one.fresh for one in outcomes):
            await self._hints.set(SESSIONS_HINT)
        return outcomes

    async def plan(self, request: SessionRequest, caller: Caller) -> PlannedSession:
        """The scheduler's decision on a request now, as a dry run; stores nothing.

        Raises InvalidRequest, DryRunUnavailable.
        """
        if self._dry_runs is None:
            raise DryRunUnavailable("this controller has no snapshot of the cluster for dry runs")
        prepared = await self._submissions.prepared(request, caller)
        outcome = await self._dry_runs.of_new(prepared.spec)
        own = SessionFilter(user=prepared.spec.owner.user)
        ids = [SessionId(one.session) for one in outcome.victims]
        names = await self._store.read(lambda unit: visible_names(unit, ids, own)) if ids else {}
        return planned_session(prepared.spec, outcome, names=names, why_group=prepared.why_group)

    async def dry_cycles(
        self, scaling_group: ScalingGroupName, user: str, changes: ClusterChanges | None = None
    ) -> DryCycles:
        """The next cycle of a scaling group, and the one after changes, for this user.

        Raises DryRunUnavailable, ObjectNotFound.
        """
        if self._dry_runs is None:
            raise DryRunUnavailable("this controller has no snapshot of the cluster for dry runs")
        return await self._dry_runs.cycles(scaling_group, user, changes)

    async def validate(self, request: SessionRequest, caller: Caller) -> None:
        """Refuse a request that could not be stored. Raises InvalidRequest."""
        await self._submissions.prepared(request, caller)

    async def mark_for_termination(
        self, session_id: SessionId, caller: Caller, *, forced: bool = False, reason: str = ""
    ) -> SessionRecord:
        """Request the termination of a session; forced, it ends at once for the user.

        Idempotent. Raises NotFound, also for a session of another user.
        """
        goal, change = termination(caller, forced=forced, reason=reason)

        async def work(unit: UnitOfWork) -> tuple[SessionRecord, bool]:
            before = await _changeable(unit, session_id, caller)
            session = await unit.sessions.set_goal(session_id, goal, change, known=before)
            changed = session.version != before.version
            if changed:
                await unit.audit.append(change_entry("session.terminate", session_id, change))
            return session, changed

        return await self._tasks.run(self._write(work))

    async def cancel(self, session_id: SessionId, caller: Caller) -> SessionRecord:
        """Cancel a pending session. Raises NotFound, and Conflict if it is not pending."""
        change = change_by(caller, USER_REQUESTED, "cancelled")

        async def work(unit: UnitOfWork) -> tuple[SessionRecord, bool]:
            before = await _changeable(unit, session_id, caller)
            session = await unit.sessions.set_goal(session_id, Goal.STOP, change, known=before)
            # It may have been placed concurrently; then the error rolls the transaction back.
            if before.status is not SessionStatus.PENDING or session.status is not SessionStatus.CANCELLED:
                raise _not_waiting(before)
            await unit.audit.append(change_entry("session.cancel", session_id, change))
            return session, True

        return await self._tasks.run(self._write(work))

    async def release(self, session_id: SessionId, caller: Caller, *, gates: Sequence[str] = ()) -> SessionRecord:
        """Release gates of a held session, all if none are named.

        Idempotent. Raises NotFound, and Conflict if it has ended while held.
        """

        async def work(unit: UnitOfWork) -> tuple[SessionRecord, bool]:
            before = await _changeable(unit, session_id, caller)
            opened = [one for one in before.spec.gates if not gates or one in gates]
            if not opened:
                return before, False
            change = change_by(caller, RELEASED, ", ".join(opened))
            session = await unit.sessions.release(session_id, opened, change)
            await unit.audit.append(change_entry("session.release", session_id, change))
            return session, True

        return await self._tasks.run(self._write(work))

    async def _write(self, work: Callable[[UnitOfWork], Awaitable[tuple[SessionRecord, bool]]]) -> SessionRecord:
        """Run a transaction, and set the hint if it changed the session."""
        session, changed = await self._store.run(work)
        if changed:
            await self._hints.set(SESSIONS_HINT)
        return session

    async def why(
        self, session_id: SessionId, scope: SessionFilter | None = None, *, evict: bool = False
    ) -> Explanation:
        """Explain the state of a session, and what would help. Raises NotFound.

        Other sessions are named only if they are in `scope`: without one, those of the owner.
        With `evict`, it lists the sessions that would be evicted for it. Raises DryRunBusy.
        """
        return await self._why.why(session_id, scope, evict=evict)

    async def waiting(self, scope: SessionFilter) -> Sequence[WaitingSummary]:
        """Count pending sessions by reason, the most frequent first."""
        return await self._why.waiting(scope)


async def _changeable(unit: UnitOfWork, session_id: SessionId, caller: Caller) -> SessionRecord:
    """A session that the caller may change; others count as not found."""
    session = await unit.sessions.get(session_id)
    if not may_change(session.spec.owner, caller):
        raise ObjectNotFound(what="session", name=session_id)
    return session


def _not_waiting(session: SessionRecord) -> Conflict:
    name = session.spec.name or session.session_id
    ended = session.status in SESSION.terminal
    return Conflict(
        f"session {name} is {session.status}; only a pending session can be cancelled",
        hint="it has already ended" if ended else "stop it instead: `sokovan stop NAME`",
    )

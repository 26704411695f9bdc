"""Dry runs: scheduling cycles on a snapshot, without allocation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.orchestrator.sessions.explain.evictions import planned_evictions, planned_victims, shown_victims
from sokovan.orchestrator.sessions.explain.explanations import PlannedSession, PlannedVictim, When
from sokovan.orchestrator.sessions.explain.reasons import funnel_view
from sokovan.orchestrator.sessions.scheduler import Decide, decide_in_thread
from sokovan.ports.snapshots import SnapshotSource
from sokovan.scheduling.cluster_changes import ClusterChanges, changed_snapshot
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot, workload_of
from sokovan.scheduling.trace import RESERVED_FOR, Advice, Check, Code, Verdict


class DryRunUnavailable(SokovanError):
    """Dry runs are not available on this manager."""

    code = "dry-run-unavailable"
    hint = "use a manager with access to the cluster, or submit the session and run `sokovan why`"


class DryRunBusy(DryRunUnavailable):
    """Too many dry runs are under way, or it took too long."""

    code = "dry-run-busy"
    hint = "retry in a moment, or submit the session and run `sokovan why`"


@dataclass(frozen=True, slots=True)
class DryRunLimits:
    """Limits that keep dry runs from slowing down scheduling.

    `concurrent_max` cycles run at once, `waiting_max` dry runs wait, each for `timeout_s`
    at most. One that has begun is not given up: its cycle could not be stopped. A user
    has at most `per_user_max` of them. Suggestions, which are extra, have `timeout_s` in
    total.
    """

    concurrent_max: int = 2
    waiting_max: int = 32
    per_user_max: int = 8
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class DryRunOutcome:
    """The verdict of a dry run; `agents` are by the index of the kernels.

    `victims` would be evicted for the session.
    """

    verdict: Verdict
    when: When
    agents: tuple[tuple[int, AgentId], ...] = ()
    victims: tuple[PlannedVictim, ...] = ()


@dataclass(frozen=True, slots=True)
class DryCycles:
    """The next cycle as the cluster is, and as it would be after changes."""

    now: SchedulingPlan
    after: SchedulingPlan


class DryRuns:
    """Runs scheduling cycles without side effects, on a snapshot source of its own.

    Raises DryRunBusy if its limits are reached.
    """

    def __init__(
        self, snapshots: SnapshotSource, decide: Decide = decide_in_thread, *, limits: DryRunLimits | None = None
    ) -> None:
        self._snapshots, self._decide = snapshots, decide
        self._limits = limits or DryRunLimits()
        self._semaphore = asyncio.Semaphore(self._limits.concurrent_max)
        self._active: Counter[str] = Counter()  # dry runs under way, by user
        # A snapshot source serves one task at a time.
        self._snapshot_lock = asyncio.Lock()

    async def of_new(self, spec: SessionSpec) -> DryRunOutcome:
        """The outcome for a session submitted now, after all others."""
        async with self._limited(spec.owner.user):
            snapshot = await self._snapshot(spec.scaling_group)
            newest = max((session.submitted for session in snapshot.sessions), default=0) + 1
            session = workload_of(spec, submitted=newest)
            return await self._outcome(replace(snapshot, sessions=(*snapshot.sessions, session)), session)

    async def of_changed(self, record: SessionRecord, variants: Sequence[SessionWorkload]) -> list[DryRunOutcome]:
        """The outcome for a pending session with each of these variants."""
        async with self._limited(record.spec.owner.user), self._in_time("the dry runs took"):
            snapshot = await self._snapshot(record.spec.scaling_group)
            others = tuple(one for one in snapshot.sessions if one.session_id != record.session_id)
            if len(others) == len(snapshot.sessions):
                return []
            return [await self._outcome(replace(snapshot, sessions=(*others, one)), one) for one in variants]

    async def cycles(
        self, scaling_group: ScalingGroupName, user: str, changes: ClusterChanges | None = None
    ) -> DryCycles:
        """The next cycle of a scaling group, and the one after changes.

        `user` asks for them. Raises ObjectNotFound for an agent or a queue that is to be changed and unknown.
        """
        async with self._limited(user):
            snapshot = await self._snapshot(scaling_group)
            now = await self._plan(snapshot, profile_of(snapshot.scaling_group))
            if changes is None:
                return DryCycles(now, now)
            changed = changed_snapshot(snapshot, changes)
            return DryCycles(now, await self._plan(changed, profile_of(changed.scaling_group)))

    @asynccontextmanager
    async def _limited(self, user: str) -> AsyncIterator[None]:
        limits, active = self._limits, self._active.total()
        if active >= limits.concurrent_max + limits.waiting_max:
            raise DryRunBusy(f"{active} dry runs are under way already")
        if self._active[user] >= limits.per_user_max:
            raise DryRunBusy(f"{self._active[user]} dry runs of user {user} are under way already")
        self._active[user] += 1
        try:
            yield
        finally:
            self._active[user] -= 1
            self._active += Counter()  # users without dry runs are not kept

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                yield
        except TimeoutError as error:
            raise DryRunBusy(f"{what} more than {self._limits.timeout_s:g} s") from error

    async def _snapshot(self, scaling_group: ScalingGroupName) -> SystemSnapshot:
        async with self._in_time("the dry run waited"):
            await self._snapshot_lock.acquire()
        try:
            await self._snapshots.refresh()
            return await self._snapshots.snapshot(scaling_group)
        finally:
            self._snapshot_lock.release()

    async def _outcome(self, snapshot: SystemSnapshot, session: SessionWorkload) -> DryRunOutcome:
        profile = profile_of(snapshot.scaling_group)
        plan = await self._plan(snapshot, profile)
        verdict = plan.trace[session.session_id]
        verdict = verdict._replace(checks=(*verdict.checks, *planned_evictions(plan, session.session_id)))
        index = {kernel.kernel_id: number for number, kernel in enumerate(session.kernels)}
        agents = [(index[one.kernel_id], one.agent_id) for one in plan.placements if one.kernel_id in index]
        victims = planned_victims(plan, snapshot, session.session_id)
        return DryRunOutcome(verdict, when_of(verdict), tuple(sorted(agents)), victims)

    async def _plan(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        """Run one cycle; a thread cannot be cancelled, so it keeps the semaphore until it ends."""
        async with self._in_time("the dry run waited"):
            await self._semaphore.acquire()
        work = asyncio.ensure_future(self._decide(snapshot, profile))
        work.add_done_callback(lambda _: self._semaphore.release())
        return await asyncio.shield(work)


def planned_session(
    spec: SessionSpec, outcome: DryRunOutcome, *, names: Mapping[SessionId, str], why_group: str = ""
) -> PlannedSession:
    """The result of a dry run, and why the session got its scaling group.

    `names` are those of victims of the same user; no others are named.
    """
    verdict = outcome.verdict
    return PlannedSession(
        would_start=outcome.when,
        code=verdict.code.value,
        summary=verdict.summary,
        verdict=verdict.advice,
        slots=spec.requested_slots(),
        size=len(spec.kernels),
        scaling_group=spec.scaling_group,
        queue=spec.queue,
        image=spec.kernels[0].image,
        placements=outcome.agents,
        # The id of a session that holds a reservation may belong to another user.
        checks=(*group_check(why_group), *(one for one in verdict.checks if one.name != RESERVED_FOR)),
        funnel=funnel_view(verdict.funnel),
        position=verdict.position,
        evicts=shown_victims(outcome.victims, names),
    )


def group_check(why_group: str) -> tuple[Check, ...]:
    """The choice of the scaling group as a check; none if there was no choice."""
    return (Check("scaling-group", "ok", why_group),) if why_group else ()


def when_of(verdict: Verdict) -> When:
    """Now, later, or never: only another request would help."""
    if verdict.code is Code.PLACED:
        return When.NOW
    return When.NEVER if verdict.advice is Advice.CHANGE else When.WAITS

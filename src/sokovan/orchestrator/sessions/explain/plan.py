"""What the real core would do, tried on a snapshot: nothing of it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.policy import Scope
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.orchestrator.sessions.explain.explanations import ABOVE_LIMIT, PlannedSession, When
from sokovan.orchestrator.sessions.scheduler import Decide, decide_in_thread
from sokovan.ports.snapshots import SnapshotSource
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot, workload_of
from sokovan.scheduling.trace import Advice, Code, Verdict

_SCOPES = (
    (Scope.KEYPAIR, "access_key"),
    (Scope.USER, "user"),
    (Scope.GROUP, "group"),
    (Scope.DOMAIN, "domain"),
)


class DryRunUnavailable(SokovanError):
    """Nothing can be tried out here."""

    code = "dry-run-unavailable"
    hint = "ask a manager that sees the cluster, or submit the session and ask why it waits"


class DryRunBusy(DryRunUnavailable):
    """Too much is being tried out already, or it takes too long."""

    code = "dry-run-busy"
    hint = "try again in a moment, or submit the session and ask why it waits"


@dataclass(frozen=True, slots=True)
class DryRunLimits:
    """How much may be tried out: it must not take the machine from real work.

    `at_a_time` cycles run, `waiting_max` dry runs wait for their turn, and each has
    `within_s` in all.
    """

    at_a_time: int = 2
    waiting_max: int = 32
    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class DryRunOutcome:
    """What a cycle would say of one session; `agents` are by the index of its kernels."""

    verdict: Verdict
    when: When
    agents: tuple[tuple[int, AgentId], ...] = ()


class DryRuns:
    """Cycles that change nothing, on a snapshot source of their own.

    Raises DryRunBusy where its limits are reached.
    """

    def __init__(
        self, snapshots: SnapshotSource, decide: Decide = decide_in_thread, *, limits: DryRunLimits | None = None
    ) -> None:
        self._snapshots, self._decide = snapshots, decide
        self._limits = limits or DryRunLimits()
        self._places, self._inside = asyncio.Semaphore(self._limits.at_a_time), 0
        # One source is used by one task at a time.
        self._turn = asyncio.Lock()

    async def of_new(self, spec: SessionSpec) -> DryRunOutcome:
        """What would become of a session if it were submitted now, after all others."""
        async with self._limited():
            snapshot = await self._snapshot(spec.scaling_group)
            newest = max((session.submitted for session in snapshot.sessions), default=0) + 1
            session = workload_of(spec, submitted=newest)
            return await self._outcome(replace(snapshot, sessions=(*snapshot.sessions, session)), session)

    async def of_changed(self, record: SessionRecord, variants: Sequence[SessionWorkload]) -> list[DryRunOutcome]:
        """What would become of a session that waits if it were like each of these."""
        async with self._limited():
            snapshot = await self._snapshot(record.spec.scaling_group)
            others = tuple(one for one in snapshot.sessions if one.session_id != record.session_id)
            if len(others) == len(snapshot.sessions):
                return []
            return [await self._outcome(replace(snapshot, sessions=(*others, one)), one) for one in variants]

    async def is_above_limits(self, record: SessionRecord) -> bool:
        """Whether a session asks for more than its owner may ever use."""
        async with self._limited():
            snapshot = await self._snapshot(record.spec.scaling_group)
            return _above_limits(snapshot, workload_of(record.spec, submitted=record.place))

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        limits = self._limits
        if self._inside >= limits.at_a_time + limits.waiting_max:
            raise DryRunBusy(f"{self._inside} requests are being tried out already")
        self._inside += 1
        try:
            async with asyncio.timeout(limits.within_s):
                yield
        except TimeoutError as error:
            raise DryRunBusy(f"no answer was found within {limits.within_s:g} s") from error
        finally:
            self._inside -= 1

    async def _snapshot(self, scaling_group: ScalingGroupName) -> SystemSnapshot:
        async with self._turn:
            await self._snapshots.refresh()
            return await self._snapshots.snapshot(scaling_group)

    async def _outcome(self, snapshot: SystemSnapshot, session: SessionWorkload) -> DryRunOutcome:
        plan = await self._plan(snapshot, profile_of(snapshot.scaling_group))
        verdict = plan.trace[session.session_id]
        index = {kernel.kernel_id: number for number, kernel in enumerate(session.kernels)}
        agents = [(index[one.kernel_id], one.agent_id) for one in plan.placements if one.kernel_id in index]
        return DryRunOutcome(verdict, when_of(verdict, snapshot, session), tuple(sorted(agents)))

    async def _plan(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        """One cycle in one of the places. A thread cannot be ended: it keeps its place until it is done."""
        await self._places.acquire()
        work = asyncio.ensure_future(self._decide(snapshot, profile))
        work.add_done_callback(lambda _: self._places.release())
        return await asyncio.shield(work)


def planned_session(spec: SessionSpec, outcome: DryRunOutcome) -> PlannedSession:
    """The answer to somebody who asks before submitting."""
    verdict, never = outcome.verdict, outcome.when is When.NEVER
    # What only a limit keeps back waits for others as a rule; not where the limit itself is too low.
    above = never and verdict.advice is not Advice.CHANGE
    return PlannedSession(
        would_start=outcome.when,
        code=verdict.code.value,
        summary=f"{verdict.summary}; {ABOVE_LIMIT}" if above else verdict.summary,
        verdict=Advice.CHANGE if never else verdict.advice,
        slots=spec.requested_slots(),
        size=len(spec.kernels),
        scaling_group=spec.scaling_group,
        queue=spec.queue,
        image=spec.kernels[0].image,
        placements=outcome.agents,
        checks=verdict.checks,
        funnel={} if verdict.funnel is None else dict(verdict.funnel._asdict()),
        position=verdict.position,
    )


def when_of(verdict: Verdict, snapshot: SystemSnapshot, session: SessionWorkload) -> When:
    """Now, later, or never as things are: nothing but another request would help."""
    if verdict.code is Code.PLACED:
        return When.NOW
    if verdict.advice is Advice.CHANGE or _above_limits(snapshot, session):
        return When.NEVER
    return When.WAITS


def _above_limits(snapshot: SystemSnapshot, session: SessionWorkload) -> bool:
    """Whether what must start together alone is more than its owner may ever use."""
    if session.gang_size < len(session.kernels):
        return False
    asked = [kernel.slots for kernel in session.kernels]
    whole = sum(asked[1:], asked[0])
    for scope, field in _SCOPES:
        policy = snapshot.limits.get(scope, {}).get(getattr(session.owner, field))
        if policy is not None and policy.slots_max.exceeded_by(whole):
            return True
    return False

"""Runs scheduling cycles: snapshot, decide in a thread, allocate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sokovan.domain.cluster.agent import FOREVER_MS, AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.owners.turns import Turns
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.agent_requests import code_and_detail
from sokovan.orchestrator.sessions.endings import pending_kernels
from sokovan.orchestrator.sessions.session_writer import slice_of
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import AllocationContext, AllocationError, Assignment, SchedulingAllocator, assignments_of
from sokovan.ports.environment import Clock
from sokovan.ports.snapshots import CatalogMarks, SnapshotSource
from sokovan.ports.storage import Fence
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.plan_slices import PlacedWorkloads, PlannedPlaces, with_planned, with_sessions
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Check, Code, Verdict, final_verdicts

# The core is pure and may take long; the caller chooses where it runs (in a server, a thread).
Decide: TypeAlias = Callable[[SystemSnapshot, SchedulingProfile], Awaitable[SchedulingPlan]]
# Default of sessions allocated per transaction, so that other writers do not wait long.
ALLOCATION_BATCH_MAX = 100
# Delay after a refused allocation: it lost against a concurrent change, which is visible by then.
_AFTER_REFUSAL_MS = 500


async def decide_in_thread(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
    """Decide outside the event loop, with the built-in plugins."""
    return await asyncio.to_thread(schedule, snapshot, profile)


@dataclass(slots=True)
class CycleReport:
    """Result of one cycle over all scaling groups.

    `evicted` are sessions that lost kernels to others, as they are now. `failed_groups` are groups
    that could not be scheduled, with the error, and `blocked` their pending sessions.
    `never` are the verdicts of sessions that no validator will ever pass. `sessions` are
    those that were placed, as far as they need not be read again. With `is_continued` only a
    part of an earlier plan was applied.
    """

    placed: int = 0
    waiting: int = 0
    decide_s: float | None = None
    refused: dict[SessionId, AllocationError] = field(default_factory=dict)
    evicted: list[SessionRecord] = field(default_factory=list)
    failed_groups: dict[ScalingGroupName, str] = field(default_factory=dict)
    never: dict[SessionId, Verdict] = field(default_factory=dict)
    blocked: dict[ScalingGroupName, list[SessionId]] = field(default_factory=dict)
    sessions: list[SessionRecord] = field(default_factory=list)
    unread: bool = False
    is_continued: bool = False


@dataclass(slots=True)
class _UnappliedPlan:
    """The allocations of a plan that are left for the next cycles, and what they were based on."""

    todo: list[Assignment]
    sessions: Mapping[SessionId, SessionWorkload]
    context: AllocationContext
    verdicts: tuple[Verdict, ...]
    marks: CatalogMarks
    refused: dict[SessionId, AllocationError] = field(default_factory=dict)

    def users(self) -> frozenset[str]:
        """The users whose sessions are left."""
        return frozenset(self.user_of(one) for one in self.todo)

    def user_of(self, one: Assignment) -> str:
        """The user of a session that is left."""
        return self.sessions[one.session_id].owner.user


class Scheduler:
    """Schedules the scaling groups one after the other.

    A plan is applied in slices, users in turn; while a part of it is left, only what came
    later is decided, and only if the caller says so. `known` gives sessions that were read before, so that they
    are not read again; those that `hides` names are left for later.
    """

    def __init__(
        self,
        snapshots: SnapshotSource,
        allocator: SchedulingAllocator,
        verdicts: VerdictCache,
        *,
        clock: Clock,
        decide: Decide = decide_in_thread,
        batch_max: Callable[[], int] = lambda: ALLOCATION_BATCH_MAX,
    ) -> None:
        self._snapshots, self._allocator, self._verdicts = snapshots, allocator, verdicts
        self._clock, self._decide, self._batch_max = clock, decide, batch_max
        self.known: Callable[[SessionId], SessionRecord | None] = lambda _session_id: None
        self.hides: Callable[[SessionId], bool] = lambda _session_id: False
        self._changed = True
        self._due_ms: int | None = None
        self._failed_groups: dict[ScalingGroupName, str] = {}
        self._unapplied: dict[ScalingGroupName, _UnappliedPlan] = {}
        self._placed: dict[ScalingGroupName, PlacedWorkloads] = {}
        self._turns: dict[ScalingGroupName, Turns[Assignment]] = {}
        # The sessions that the last decision had before it, and the users of which a part is not applied.
        self._seen: dict[ScalingGroupName, frozenset[SessionId]] = {}
        self._users: dict[ScalingGroupName, frozenset[str]] = {}

    async def refresh(self, *, sessions: bool = True) -> None:
        """Read what was committed since the last refresh; sessions only if needed."""
        self._changed |= await self._snapshots.refresh(sessions=sessions)

    def agents(self) -> Mapping[AgentId, AgentInfo]:
        """All agents, as of the last refresh."""
        return self._snapshots.agents()

    def scaling_groups(self) -> Sequence[ScalingGroup]:
        """All scaling groups, as of the last refresh."""
        return self._snapshots.groups()

    def is_eligible(self, group: ScalingGroupName, session_id: SessionId) -> bool:
        """Whether the last cycle of this term found that the session may start, but waits."""
        return self._verdicts.is_eligible(group, session_id)

    @property
    def unapplied(self) -> list[SessionId]:
        """The sessions that are planned, and not allocated yet."""
        return [one.session_id for left in self._unapplied.values() for one in left.todo]

    def is_unplanned(self, session: SessionRecord) -> bool:
        """Whether a waiting session came after the last decision, and nothing of its user is left of that."""
        group = session.spec.scaling_group
        seen, users = self._seen.get(group, frozenset()), self._users.get(group, frozenset())
        return session.session_id not in seen and session.spec.owner.user not in users

    def clear(self) -> None:
        """Forget cached state at the end of a leadership term."""
        self._changed, self._due_ms = True, None
        self._verdicts.clear()
        for known in (self._failed_groups, self._unapplied, self._placed, self._turns, self._seen, self._users):
            known.clear()

    def next_due_s(self) -> float | None:
        """Seconds until a cycle is due without a change; None if none is."""
        return None if self._due_ms is None else max(0, self._due_ms - self._clock.monotonic_ms()) / 1000

    async def run(self, *, fence: Fence | None, always: bool, pending: bool = True, anew: bool = False) -> CycleReport:
        """Run a cycle if something changed, one is due, or `always` is set.

        `pending` says whether any session waits. What is left of a plan is applied, and nothing is
        decided meanwhile, except `anew` for sessions that came later. Works on the state of the
        last `refresh`, which included sessions if one waits.
        Raises FencedOut, StoreUnavailable.
        """
        report = CycleReport()
        due = self._due_ms is not None and self._due_ms <= self._clock.monotonic_ms()
        if not pending:
            self._unapplied.clear()
        for group in () if anew else tuple(self._unapplied):
            await self._apply_next(group, fence, report)
        report.is_continued = bool(report.placed or report.refused or self._unapplied) and not anew
        if report.is_continued or not (self._changed or always or due or anew):
            return report
        self._due_ms = None  # without a session that waits there is nothing to wake for
        if not pending:  # changes stay unprocessed for sessions that come later
            await self._verdicts.remove_all()
            return report
        self._changed = False
        for group in self._snapshots.scaling_groups():
            await self._schedule_group(group, fence, report)
        return report

    async def _schedule_group(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> None:
        """Schedule one group; its failure does not affect other groups."""
        snapshot = await self._snapshots.snapshot(group)
        # In reverse: pending sessions are mostly the newest.
        pending = any(_is_pending(session) for session in reversed(snapshot.sessions))
        try:
            await self._schedule(snapshot, fence, report, pending=pending)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # a bad profile or a broken plugin of one group
            text = ": ".join(code_and_detail(error))
            if self._failed_groups.get(group) != text:
                self._failed_groups[group] = report.failed_groups[group] = text
                report.blocked[group] = [one.session_id for one in snapshot.sessions if _is_pending(one)]
            return
        self._failed_groups.pop(group, None)

    async def _schedule(
        self, snapshot: SystemSnapshot, fence: Fence | None, report: CycleReport, *, pending: bool
    ) -> None:
        group = snapshot.scaling_group.name
        if not pending:
            await self._verdicts.write(group, ())
            self._unapplied.pop(group, None)
            return
        began_ms = self._clock.monotonic_ms()
        profile = profile_of(snapshot.scaling_group)
        left = self._left_of(group, snapshot)
        plan = await self._decide(self._with_planned(self._without_hidden(snapshot), left), profile)
        report.decide_s = (report.decide_s or 0.0) + (self._clock.monotonic_ms() - began_ms) / 1000
        verdicts = await self._apply(snapshot, plan, left, fence, report)
        recorded = await self._snapshots.record_plan(group, plan, fence=fence)
        report.evicted += recorded.evicted
        if recorded.refused:
            self._wake_in(_AFTER_REFUSAL_MS)
        await self._verdicts.write(group, verdicts)
        report.never.update({one.session_id: one for one in final_verdicts(verdicts)})
        report.waiting += sum(verdict.code is not Code.PLACED for verdict in verdicts)
        times = [at_ms for at_ms in _times(snapshot, verdicts) if at_ms > snapshot.now_ms]
        if times:
            self._wake_in(min(times) - snapshot.now_ms)

    def _left_of(self, group: ScalingGroupName, snapshot: SystemSnapshot) -> _UnappliedPlan | None:
        """What is left of the last plan, of sessions that still wait; None if it is void."""
        left = self._unapplied.pop(group, None)
        if left is None or left.marks != self._snapshots.marks:
            return None
        waiting = {session.session_id for session in snapshot.sessions if _is_pending(session)}
        left.todo = [one for one in left.todo if one.session_id in waiting]
        return left

    def _without_hidden(self, snapshot: SystemSnapshot) -> SystemSnapshot:
        """The snapshot as if hidden sessions that no decision has seen came after it."""
        seen = self._seen.get(snapshot.scaling_group.name, frozenset())
        later = {
            one.session_id
            for one in snapshot.sessions
            if one.session_id not in seen and self.hides(one.session_id) and one.waits
        }
        if not later:
            return snapshot
        self._changed = True
        return with_sessions(snapshot, [one for one in snapshot.sessions if one.session_id not in later])

    def _with_planned(self, snapshot: SystemSnapshot, left: _UnappliedPlan | None) -> SystemSnapshot:
        if left is None or not left.todo:
            return snapshot
        placed = self._placed.setdefault(snapshot.scaling_group.name, PlacedWorkloads())
        planned = {one.session_id: PlannedPlaces(dict(one.kernels), one.hypernode, one.lender) for one in left.todo}
        placed.keep(planned)
        return with_planned(snapshot, planned, placed)

    async def _apply(
        self,
        snapshot: SystemSnapshot,
        plan: SchedulingPlan,
        left: _UnappliedPlan | None,
        fence: Fence | None,
        report: CycleReport,
    ) -> tuple[Verdict, ...]:
        """Allocate the first slice of a plan; the verdicts with what was refused."""
        group = snapshot.scaling_group.name
        incarnations = {agent.agent_id: agent.incarnation for agent in snapshot.agents}
        todo, verdicts = assignments_of(plan, incarnations=incarnations), plan.verdicts
        if left is not None:
            ids = {one.session_id for one in left.todo}
            todo = [*left.todo, *todo]
            verdicts = (*verdicts, *(one for one in left.verdicts if one.session_id in ids))
        self._seen[group] = frozenset(verdict.session_id for verdict in verdicts)
        validators = frozenset(profile_of(snapshot.scaling_group).validators)
        topology, bookings = self._snapshots.marks
        context = AllocationContext(topology=topology, bookings=bookings, validators=validators)
        sessions = {session.session_id: session for session in snapshot.sessions} if todo else {}
        whole = _UnappliedPlan(todo, sessions, context, verdicts, self._snapshots.marks)
        await self._allocate_slice(group, whole, fence, report)
        return with_refusals(whole.verdicts, whole.refused)

    async def _apply_next(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> None:
        """Allocate the next slice of a plan, without the sessions that wait no more."""
        left, refused = self._unapplied.pop(group), len(report.refused)
        left.todo = [one for one in left.todo if _still_waits(self.known(one.session_id))]
        await self._allocate_slice(group, left, fence, report)
        if len(report.refused) > refused:
            await self._verdicts.write(group, with_refusals(left.verdicts, left.refused))

    async def _allocate_slice(
        self, group: ScalingGroupName, left: _UnappliedPlan, fence: Fence | None, report: CycleReport
    ) -> None:
        """Allocate a slice of what is left of a plan, users in turn, and keep the rest."""
        taken: list[Assignment] = []

        def take(one: Assignment, _limit: int) -> int:
            taken.append(one)
            return len(one.kernels)

        hidden = [one for one in left.todo if self.hides(one.session_id)]
        shown = [one for one in left.todo if not self.hides(one.session_id)] if hidden else left.todo
        turns = self._turns.setdefault(group, Turns(user_of=left.user_of, size_of=_kernels_in))
        turns.user_of = left.user_of
        left.todo = turns.take(shown, budget=slice_of(sum(map(_kernels_in, shown))), spend=take) + hidden
        for batch in _batches(taken, self._batch_max()):
            known = {one.session_id: record for one in batch if (record := self.known(one.session_id)) is not None}
            context = replace(left.context, fence=fence, known=known)
            result = await self._allocator.allocate_planned(batch, left.sessions, context)
            report.placed += sum(len(one.kernels) for one in result.allocated)
            report.sessions += [one.session for one in result.allocated if one.session is not None]
            report.unread |= any(one.session is None for one in result.allocated)
            report.refused.update(result.refused)
            left.refused.update(result.refused)
        if left.refused:
            self._wake_in(_AFTER_REFUSAL_MS)
        self._users[group] = left.users()
        if left.todo:
            self._unapplied[group] = left

    def _wake_in(self, milliseconds: int) -> None:
        at_ms = self._clock.monotonic_ms() + milliseconds
        self._due_ms = at_ms if self._due_ms is None else min(self._due_ms, at_ms)


def _times(snapshot: SystemSnapshot, verdicts: Iterable[Verdict]) -> Iterator[int]:
    """The times at which sessions may start, or use a booking, a failed agent or a port again."""
    if any(verdict.code is Code.PORTS_TAKEN for verdict in verdicts):
        yield from (until for agent in snapshot.agents for _, until in agent.leased_ports if until != FOREVER_MS)
    for booking in snapshot.bookings:
        yield from (booking.from_ms, booking.released_at(), booking.to_ms)
    for session in snapshot.sessions:
        if session.starts_at_ms is not None:
            yield session.starts_at_ms
        # All kernels that wait avoid the same agents; the first ones may run.
        avoid = next((kernel.avoid for kernel in session.kernels if kernel.agent is None), ())
        for _, until_ms in avoid:
            yield until_ms


def with_refusals(verdicts: Sequence[Verdict], refused: Mapping[SessionId, AllocationError]) -> tuple[Verdict, ...]:
    """The verdicts of a plan; refusals of the allocator replace their sessions'."""
    return tuple(_refusal(one, refused[one.session_id]) if one.session_id in refused else one for one in verdicts)


def _refusal(verdict: Verdict, error: AllocationError) -> Verdict:
    return verdict._replace(
        code=Code.ALLOCATION_REFUSED,
        summary=f"the allocation was refused: {error.problem} ({error.code})",
        checks=(*verdict.checks, Check("allocation", "no", f"{error.code}: {error.problem}")),
        shortfall=error.shortfall,
        best_agent=error.agent_id,
        kernels_placed=0,
    )


def _kernels_in(assignment: Assignment) -> int:
    return len(assignment.kernels)


def _still_waits(session: SessionRecord | None) -> bool:
    """Whether a planned session is not known to wait no more."""
    return session is None or bool(pending_kernels(session))


def _is_pending(session: SessionWorkload) -> bool:
    return any(kernel.agent is None for kernel in session.kernels)


def _batches(assignments: Sequence[Assignment], size: int) -> list[Sequence[Assignment]]:
    return [assignments[start : start + size] for start in range(0, len(assignments), size)]

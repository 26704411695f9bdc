"""Applies the plans of scheduling cycles in slices, users in turn.

A slice leaves the others of a plan for the next cycles. Later decisions see these as
placed, so that they neither use their places nor decide on them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sokovan.domain.ids import ScalingGroupName, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.owners.turns import Turns, slice_of
from sokovan.domain.records import SessionRecord
from sokovan.ports.allocation import AllocationContext, AllocationError, Assignment, SchedulingAllocator, assignments_of
from sokovan.ports.snapshots import CatalogMarks
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.plan_slices import PlacedWorkloads, PlannedPlaces, with_planned, with_sessions
from sokovan.scheduling.profile import profile_of
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Check, Code, Verdict

# A session with more kernels is allocated in a transaction of its own, in the cycle after its decision.
ALONE = 1_000


@dataclass(slots=True)
class CycleReport:
    """Result of one cycle over all scaling groups.

    `evicted` are sessions that lost kernels to others, as they are now. `failed_groups` are groups
    that could not be scheduled, with the error, and `blocked` their pending sessions.
    `never` are the verdicts of sessions that no validator will ever pass. `sessions` are
    those that were placed, as far as they need not be read again. With `is_continued` only a
    part of an earlier plan was applied. `unread` are sessions that were placed, and must be read again.
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
    unread: list[SessionId] = field(default_factory=list)
    is_continued: bool = False


@dataclass(slots=True)
class UnappliedPlan:
    """The allocations of a plan that are left for the next cycles, and their grounds."""

    todo: list[Assignment]
    sessions: Mapping[SessionId, SessionWorkload]
    context: AllocationContext
    plan_verdicts: tuple[Verdict, ...]
    marks: CatalogMarks
    refused: dict[SessionId, AllocationError] = field(default_factory=dict)
    # Of the largest sessions, those whose turn it was: they are allocated in a later cycle.
    postponed: set[SessionId] = field(default_factory=set)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of the plan; refusals of the allocator replace their sessions'."""
        refused = self.refused
        return tuple(
            [_refusal(one, refused[one.session_id]) if one.session_id in refused else one for one in self.plan_verdicts]
        )

    def user_of(self, one: Assignment) -> str:
        """The user of a session that is left."""
        return self.sessions[one.session_id].owner.user


class PlanAllocator:
    """Applies plans, and keeps what is left of them by scaling group.

    `known` gives sessions that were read before, so that they are not read again; those that
    `hides` names are left for later.
    """

    def __init__(self, allocator: SchedulingAllocator, batch_max: Callable[[], int]) -> None:
        self._allocator, self._batch_max = allocator, batch_max
        self.known: Callable[[SessionId], SessionRecord | None] = lambda _session_id: None
        self.hides: Callable[[SessionId], bool] = lambda _session_id: False
        self.left: dict[ScalingGroupName, UnappliedPlan] = {}
        self._placed: dict[ScalingGroupName, PlacedWorkloads] = {}
        self._turns: dict[ScalingGroupName, Turns[Assignment]] = {}
        # The sessions that the last decision had before it, and the users of which a part is not applied.
        self._seen: dict[ScalingGroupName, frozenset[SessionId]] = {}
        self._users: dict[ScalingGroupName, frozenset[str]] = {}

    def drop(self, group: ScalingGroupName) -> None:
        """Forget what is left of the plan of a scaling group."""
        self.left.pop(group, None)

    @property
    def unapplied(self) -> list[SessionId]:
        """The sessions that are planned, and not allocated yet."""
        return [one.session_id for left in self.left.values() for one in left.todo]

    def is_unplanned(self, session: SessionRecord) -> bool:
        """Whether a session came after the last decision, and its user has no part of it.

        A user with sessions that are left of a plan waits until these are allocated.
        """
        group = session.spec.scaling_group
        seen, users = self._seen.get(group, frozenset()), self._users.get(group, frozenset())
        return session.session_id not in seen and session.spec.owner.user not in users

    def clear(self) -> None:
        """Forget all plans."""
        for known in (self.left, self._placed, self._turns, self._seen, self._users):
            known.clear()

    def take_left(self, snapshot: SystemSnapshot, marks: CatalogMarks) -> UnappliedPlan | None:
        """The rest of the last plan, of sessions that still wait; None if it is void."""
        left = self.left.pop(snapshot.scaling_group.name, None)
        if left is None or left.marks != marks:
            return None
        waiting = {one.session_id for one in snapshot.sessions if any(kernel.agent is None for kernel in one.kernels)}
        left.todo = [one for one in left.todo if one.session_id in waiting]
        return left

    def without_hidden(self, snapshot: SystemSnapshot) -> SystemSnapshot:
        """The snapshot as if hidden sessions that no decision has seen came after it."""
        seen = self._seen.get(snapshot.scaling_group.name, frozenset())
        later = {
            one.session_id
            for one in snapshot.sessions
            if one.session_id not in seen and self.hides(one.session_id) and one.waits
        }
        if not later:
            return snapshot
        return with_sessions(snapshot, [one for one in snapshot.sessions if one.session_id not in later])

    def with_left(self, snapshot: SystemSnapshot, left: UnappliedPlan | None) -> SystemSnapshot:
        """The snapshot with the rest of a plan as placed."""
        if left is None or not left.todo:
            return snapshot
        placed = self._placed.setdefault(snapshot.scaling_group.name, PlacedWorkloads())
        planned = {one.session_id: PlannedPlaces(dict(one.kernels), one.hypernode, one.lender) for one in left.todo}
        placed.keep(planned)
        return with_planned(snapshot, planned, placed)

    def joined(
        self, snapshot: SystemSnapshot, plan: SchedulingPlan, marks: CatalogMarks, left: UnappliedPlan | None
    ) -> UnappliedPlan:
        """A plan with the rest of the last one, to apply."""
        incarnations = {agent.agent_id: agent.incarnation for agent in snapshot.agents}
        todo, verdicts = assignments_of(plan, incarnations=incarnations), plan.verdicts
        if left is not None:
            ids = {one.session_id for one in left.todo}
            todo = [*left.todo, *todo]
            verdicts = (*verdicts, *(one for one in left.plan_verdicts if one.session_id in ids))
        self._seen[snapshot.scaling_group.name] = frozenset(verdict.session_id for verdict in verdicts)
        validators = frozenset(profile_of(snapshot.scaling_group).validators)
        context = AllocationContext(topology=marks.topology, bookings=marks.bookings, validators=validators)
        sessions = {session.session_id: session for session in snapshot.sessions} if todo else {}
        postponed = set() if left is None else left.postponed
        return UnappliedPlan(todo, sessions, context, verdicts, marks, postponed=postponed)

    async def allocate_next(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> UnappliedPlan:
        """Allocate the next slice of a plan, without the sessions that wait no more."""
        left = self.left.pop(group)
        left.todo = [one for one in left.todo if _still_waits(self.known(one.session_id))]
        await self.allocate(group, left, fence, report)
        return left

    async def allocate(
        self, group: ScalingGroupName, left: UnappliedPlan, fence: Fence | None, report: CycleReport
    ) -> None:
        """Allocate a slice of a plan, users in turn, and keep the rest."""
        taken: list[Assignment] = []

        def take(one: Assignment, _limit: int) -> int:
            taken.append(one)
            return len(one.kernels)

        hidden = [one for one in left.todo if self.hides(one.session_id)]
        shown = [one for one in left.todo if not self.hides(one.session_id)] if hidden else left.todo
        turns = self._turns.setdefault(group, Turns(user_of=left.user_of, size_of=_kernels_in))
        turns.user_of = left.user_of
        left.todo = turns.take(shown, budget=slice_of(sum(map(_kernels_in, shown))), spend=take) + hidden
        taken, later = _without_largest(taken, left.postponed)
        left.todo += later
        for batch in _batches(taken, self._batch_max()):
            known = {one.session_id: record for one in batch if (record := self.known(one.session_id)) is not None}
            context = replace(left.context, fence=fence, known=known)
            result = await self._allocator.allocate_planned(batch, left.sessions, context)
            report.placed += sum(len(one.kernels) for one in result.allocated)
            report.sessions += [one.session for one in result.allocated if one.session is not None]
            report.unread += [one.session_id for one in result.allocated if one.session is None]
            report.refused.update(result.refused)
            left.refused.update(result.refused)
        self._users[group] = frozenset(map(left.user_of, left.todo))
        if left.todo:
            self.left[group] = left


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
    return session is None or any(kernel.status is KernelStatus.PENDING for kernel in session.kernels)


def _without_largest(
    taken: Sequence[Assignment], postponed: set[SessionId]
) -> tuple[list[Assignment], list[Assignment]]:
    """Assignments to allocate now, the largest last, and the largest for a later cycle.

    Each of these waits once, so that others are served between its decision and its allocation.
    """
    largest = [one for one in taken if len(one.kernels) > ALONE]
    now = [one for one in largest if one.session_id in postponed]
    later = [one for one in largest if one.session_id not in postponed]
    postponed.update(one.session_id for one in later)
    return [*(one for one in taken if len(one.kernels) <= ALONE), *now], later


def _batches(assignments: Sequence[Assignment], size: int) -> list[Sequence[Assignment]]:
    """At most `size` sessions each; the largest ones, which come last, alone."""
    small = sum(len(one.kernels) <= ALONE for one in assignments)
    together = [assignments[start : min(start + size, small)] for start in range(0, small, size)]
    return [*together, *([one] for one in assignments[small:])]

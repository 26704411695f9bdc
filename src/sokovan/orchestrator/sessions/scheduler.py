"""Runs scheduling cycles: look, decide outside the event loop, make the plan a fact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.record import DETAIL_MAX, Change
from sokovan.ports.allocation import (
    AllocationContext,
    AllocationError,
    Assignment,
    SchedulingAllocator,
    assignments_of,
)
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Fence, Store, UnitOfWork
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code, Verdict

# The core is pure and may take long; where it runs is the caller's choice (a thread, in a server).
Decide = Callable[[SystemSnapshot, SchedulingProfile], Awaitable[SchedulingPlan]]
# One transaction allocates at most this many sessions, so that others get their turn.
BATCH_MAX = 500


@dataclass(slots=True)
class CycleReport:
    """What one cycle over all scaling groups did."""

    placed: int = 0
    waiting: int = 0
    refused: dict[SessionId, AllocationError] = field(default_factory=dict)


class Scheduler:
    """Schedules every scaling group, one after the other."""

    def __init__(self, store: Store, snapshots: SnapshotSource, allocator: SchedulingAllocator, decide: Decide) -> None:
        self._store, self._snapshots, self._allocator, self._decide = store, snapshots, allocator, decide
        # What each waiting session was told last: a reason that did not change is not written again.
        self._told: dict[SessionId, Code] = {}

    async def run(self, *, fence: Fence | None, always: bool) -> CycleReport:
        """One cycle. Without `always`, nothing happens if nothing was written since the last."""
        report = CycleReport()
        changed = await self._snapshots.refresh()
        if not changed and not always:
            return report
        for group in self._snapshots.scaling_groups():
            await self._schedule(group, fence, report)
        return report

    async def _schedule(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> None:
        snapshot = await self._snapshots.snapshot(group)
        if not any(kernel.agent is None for session in snapshot.sessions for kernel in session.kernels):
            return
        plan = await self._decide(snapshot, profile_of(snapshot.scaling_group))
        await self._apply(snapshot, plan, fence, report)
        await self._snapshots.remember(group, plan)
        await self._explain(plan.verdicts, fence)
        report.waiting += sum(verdict.code is not Code.PLACED for verdict in plan.verdicts)

    async def _apply(
        self, snapshot: SystemSnapshot, plan: SchedulingPlan, fence: Fence | None, report: CycleReport
    ) -> None:
        incarnations: Mapping[AgentId, int] = {agent.agent_id: agent.incarnation for agent in snapshot.agents}
        todo = assignments_of(plan.placements, incarnations=incarnations, domains=plan.domains)
        context = AllocationContext(who="scheduler", fence=fence)
        for batch in _batches(todo):
            result = await self._allocator.allocate_batch(batch, context)
            report.placed += sum(len(one.kernels) for one in result.allocated)
            report.refused.update(result.refused)

    async def _explain(self, verdicts: Sequence[Verdict], fence: Fence | None) -> None:
        """Note, in their histories, why sessions wait; once per reason."""
        fresh: dict[tuple[Code, str], list[SessionId]] = {}
        for verdict in verdicts:
            if verdict.code is Code.PLACED:
                self._told.pop(verdict.session_id, None)
            elif self._told.get(verdict.session_id) is not verdict.code:
                fresh.setdefault((verdict.code, verdict.summary), []).append(verdict.session_id)
                self._told[verdict.session_id] = verdict.code
        if not fresh:
            return

        async def work(unit: UnitOfWork) -> None:
            for (code, summary), ids in fresh.items():
                change = Change("scheduler", Cause.COORDINATOR, code.value, summary[:DETAIL_MAX])
                await unit.sessions.note(ids, change)

        await self._store.run(work, fence=fence)


def _batches(assignments: Sequence[Assignment]) -> list[Sequence[Assignment]]:
    return [assignments[start : start + BATCH_MAX] for start in range(0, len(assignments), BATCH_MAX)]

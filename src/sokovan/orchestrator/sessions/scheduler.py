"""Runs scheduling cycles: look, decide beside the loop, make the plan a fact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.orchestrator.agent_requests import said
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import AllocationContext, AllocationError, Assignment, SchedulingAllocator, assignments_of
from sokovan.ports.environment import Clock
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Fence
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code

# The core is pure and may take long; where it runs is the caller's choice (a thread, in a server).
Decide: TypeAlias = Callable[[SystemSnapshot, SchedulingProfile], Awaitable[SchedulingPlan]]
# One transaction allocates at most this many sessions, so that others get their turn.
BATCH_MAX = 100
# Somebody was faster; the state that they left is seen by then.
_AFTER_REFUSAL_MS = 500


async def decide_in_thread(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
    """Decide beside the event loop, with the plugins that come with us."""
    return await asyncio.to_thread(schedule, snapshot, profile)


@dataclass(slots=True)
class CycleReport:
    """What one cycle over all scaling groups did.

    `evicted` says for whom each session makes room; `broken` are scaling groups that
    could not be scheduled, in words, and `stranded` who waits in them.
    """

    placed: int = 0
    waiting: int = 0
    decide_s: float | None = None
    refused: dict[SessionId, AllocationError] = field(default_factory=dict)
    evicted: dict[SessionId, SessionId] = field(default_factory=dict)
    broken: dict[ScalingGroupName, str] = field(default_factory=dict)
    stranded: dict[ScalingGroupName, list[SessionId]] = field(default_factory=dict)


class Scheduler:
    """Schedules every scaling group, one after the other."""

    def __init__(
        self,
        snapshots: SnapshotSource,
        allocator: SchedulingAllocator,
        verdicts: VerdictCache,
        *,
        clock: Clock,
        decide: Decide = decide_in_thread,
    ) -> None:
        self._snapshots, self._allocator, self._verdicts = snapshots, allocator, verdicts
        self._clock, self._decide = clock, decide
        self._changed = True
        self._due_ms: int | None = None
        self._told_broken: dict[ScalingGroupName, str] = {}

    async def look(self) -> None:
        """Read what was committed since the last look."""
        self._changed |= await self._snapshots.refresh()

    async def agents(self) -> Mapping[AgentId, AgentInfo]:
        """Every agent, as of the last look."""
        found: dict[AgentId, AgentInfo] = {}
        for group in self._snapshots.scaling_groups():
            found.update({one.agent_id: one for one in (await self._snapshots.snapshot(group)).agents})
        return found

    async def scaling_groups(self) -> Sequence[ScalingGroup]:
        """Every scaling group, as of the last look."""
        groups = self._snapshots.scaling_groups()
        return [(await self._snapshots.snapshot(group)).scaling_group for group in groups]

    def clear(self) -> None:
        """Another may have led meanwhile: take nothing for granted."""
        self._changed, self._due_ms = True, None
        self._told_broken.clear()
        self._verdicts.clear()

    def next_due_s(self) -> float | None:
        """How long until a cycle is due though nothing changes; None if none is."""
        return None if self._due_ms is None else max(0, self._due_ms - self._clock.monotonic_ms()) / 1000

    async def run(self, *, fence: Fence | None, always: bool, anybody: bool = True) -> CycleReport:
        """One cycle. Without `always`, only if something changed, or its time has come.

        `anybody` says whether anybody waits at all. What is committed after the last
        `look` is not seen. Raises FencedOut, StoreUnavailable.
        """
        report = CycleReport()
        due = self._due_ms is not None and self._due_ms <= self._clock.monotonic_ms()
        if not (self._changed or always or due):
            return report
        if not anybody:  # whatever changed is still new to those who come later
            await self._verdicts.nobody_waits()
            return report
        self._changed, self._due_ms = False, None
        for group in self._snapshots.scaling_groups():
            await self._try(group, fence, report)
        return report

    async def _try(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> None:
        """Schedule one group; what is wrong with it concerns nobody else."""
        snapshot = await self._snapshots.snapshot(group)
        # From behind: among many who run, those who wait have mostly come last.
        anybody = any(_waits(session) for session in reversed(snapshot.sessions))
        try:
            await self._schedule(snapshot, fence, report, anybody=anybody)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # a bad profile or a broken plugin of one group
            words = ": ".join(said(error))
            if self._told_broken.get(group) != words:
                self._told_broken[group] = report.broken[group] = words
                report.stranded[group] = [one.session_id for one in snapshot.sessions if _waits(one)]
            return
        self._told_broken.pop(group, None)

    async def _schedule(
        self, snapshot: SystemSnapshot, fence: Fence | None, report: CycleReport, *, anybody: bool
    ) -> None:
        group = snapshot.scaling_group.name
        if not anybody:
            await self._verdicts.tell(group, ())
            return
        began_ms = self._clock.monotonic_ms()
        plan = await self._decide(snapshot, profile_of(snapshot.scaling_group))
        report.decide_s = (report.decide_s or 0.0) + (self._clock.monotonic_ms() - began_ms) / 1000
        await self._apply(snapshot, plan, fence, report)
        await self._snapshots.record_plan(group, plan, fence=fence)
        await self._verdicts.tell(group, plan.verdicts)
        report.waiting += sum(verdict.code is not Code.PLACED for verdict in plan.verdicts)
        report.evicted.update({one.session_id: one.for_session for one in plan.evictions})
        starts = [
            one.starts_at_ms for one in snapshot.sessions if one.starts_at_ms and one.starts_at_ms > snapshot.now_ms
        ]
        if starts:
            self._wake_in(min(starts) - snapshot.now_ms)

    async def _apply(
        self, snapshot: SystemSnapshot, plan: SchedulingPlan, fence: Fence | None, report: CycleReport
    ) -> None:
        incarnations = {agent.agent_id: agent.incarnation for agent in snapshot.agents}
        todo = assignments_of(plan.placements, incarnations=incarnations, domains=plan.domains)
        context = AllocationContext(who="scheduler", fence=fence, topology=self._snapshots.topology)
        for batch in _batches(todo):
            result = await self._allocator.allocate_batch(batch, context)
            report.placed += sum(len(one.kernels) for one in result.allocated)
            report.refused.update(result.refused)
        if report.refused:
            self._wake_in(_AFTER_REFUSAL_MS)

    def _wake_in(self, milliseconds: int) -> None:
        at_ms = self._clock.monotonic_ms() + milliseconds
        self._due_ms = at_ms if self._due_ms is None else min(self._due_ms, at_ms)


def _waits(session: SessionWorkload) -> bool:
    return any(kernel.agent is None for kernel in session.kernels)


def _batches(assignments: Sequence[Assignment]) -> list[Sequence[Assignment]]:
    return [assignments[start : start + BATCH_MAX] for start in range(0, len(assignments), BATCH_MAX)]

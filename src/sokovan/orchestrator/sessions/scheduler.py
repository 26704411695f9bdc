"""Runs scheduling cycles: snapshot, decide in a thread, allocate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sokovan.domain.cluster.agent import FOREVER_MS, AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import FencedOut, StoreUnavailable
from sokovan.domain.ids import AgentId, ScalingGroupName, SessionId
from sokovan.orchestrator.agent_requests import code_and_detail
from sokovan.orchestrator.plan_allocator import CycleReport, PlanAllocator
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import SchedulingAllocator
from sokovan.ports.environment import Clock
from sokovan.ports.snapshots import SnapshotSource
from sokovan.ports.storage import Fence
from sokovan.scheduling.cycle_timing import depends_on_time, leaves_at
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile, profile_of
from sokovan.scheduling.snapshot import Booking, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code, Verdict, final_verdicts

# The core is pure and may take long; the caller chooses where it runs (in a server, a thread).
Decide: TypeAlias = Callable[[SystemSnapshot, SchedulingProfile], Awaitable[SchedulingPlan]]
# Default of sessions allocated per transaction, so that other writers do not wait long.
ALLOCATION_BATCH_MAX = 100
# While nothing changes, a decision that the time may change is repeated in long cycles, and takes at most this part of
# the time. One that it cannot change is repeated this often, in case that a rule is not known to look at it.
_REPEATED_PART = 1 / 20
_REPEATED_AFTER_MS = 300_000
# Delay after a refused allocation: it lost against a concurrent change, which is visible by then.
_AFTER_REFUSAL_MS = 500


async def decide_in_thread(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
    """Decide outside the event loop, with the built-in plugins."""
    return await asyncio.to_thread(schedule, snapshot, profile)


class Scheduler:
    """Schedules the scaling groups one after the other.

    A plan is applied in slices by `plans`; while a part of it is left, only what came later is
    decided, and only if the caller says so.
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
        self._snapshots, self._verdicts = snapshots, verdicts
        self._clock, self._decide = clock, decide
        self.plans = PlanAllocator(allocator, batch_max)
        self._changed = True
        self._due_ms: int | None = None
        # From when on a long cycle decides again although nothing has changed.
        self._repeat_ms = 0
        self._failed_groups: dict[ScalingGroupName, str] = {}

    async def refresh(self, *, sessions: bool = True, at_once: int | None = None) -> None:
        """Read what was committed since the last refresh; sessions only if needed.

        Of more new sessions than `at_once` so many are read, users in turn.
        """
        self._changed |= await self._snapshots.refresh(sessions=sessions, at_once=at_once)

    @property
    def is_behind(self) -> bool:
        """Whether new sessions were left for the next refresh."""
        return self._snapshots.is_behind

    def agents(self) -> Mapping[AgentId, AgentInfo]:
        """All agents, as of the last refresh."""
        return self._snapshots.agents()

    def scaling_groups(self) -> Sequence[ScalingGroup]:
        """All scaling groups, as of the last refresh."""
        return self._snapshots.groups()

    def bookings(self) -> Sequence[Booking]:
        """The bookings that have not ended, as of the last refresh.

        While there are any, sessions may have to leave their agents also if none waits.
        """
        return self._snapshots.bookings

    def is_eligible(self, group: ScalingGroupName, session_id: SessionId) -> bool:
        """Whether the last cycle of this term found that the session may start, but waits."""
        return self._verdicts.is_eligible(group, session_id)

    def clear(self) -> None:
        """Forget cached state at the end of a leadership term."""
        self._changed, self._due_ms, self._repeat_ms = True, None, 0
        self._failed_groups.clear()
        self._verdicts.clear()
        self.plans.clear()

    def is_repeat_due(self) -> bool:
        """Whether to decide again in a long cycle although nothing has changed."""
        return self._repeat_ms <= self._clock.monotonic_ms()

    def next_due_s(self) -> float | None:
        """Seconds until a cycle is due without a change; None if none is."""
        return None if self._due_ms is None else max(0, self._due_ms - self._clock.monotonic_ms()) / 1000

    async def run(self, *, fence: Fence | None, always: bool, pending: bool = True, anew: bool = False) -> CycleReport:
        """Run a cycle if something changed, one is due, or `always` is set.

        `pending` says whether any session waits, or may have to leave booked agents. What is left
        of a plan is applied, and nothing is decided meanwhile, except `anew` for sessions that came
        later. Works on the state of the last `refresh`, which included sessions if one waits.
        Raises FencedOut, StoreUnavailable.
        """
        report = CycleReport()
        due = self._due_ms is not None and self._due_ms <= self._clock.monotonic_ms()
        if not pending:
            for group in tuple(self.plans.left):
                self.plans.drop(group)
        for group in () if anew else tuple(self.plans.left):
            await self._apply_next(group, fence, report)
        report.is_continued = bool(report.placed or report.refused or self.plans.left) and not anew
        if report.is_continued or not (self._changed or always or due or anew):
            if pending and not report.is_continued:
                await self._verdicts.write_rest()
            return report
        self._due_ms = None  # without a session that waits there is nothing to wake for
        if not pending:  # changes stay unprocessed for sessions that come later
            await self._verdicts.remove_all()
            return report
        self._changed, self._repeat_ms = False, 0
        repeated_ms = [await self._schedule_group(one, fence, report) for one in self._snapshots.scaling_groups()]
        self._repeat_ms = self._clock.monotonic_ms() + min(repeated_ms, default=0)
        return report

    async def _schedule_group(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> int:
        """Schedule one group; its failure does not affect other groups.

        Returns the milliseconds after which to decide again although nothing has changed.
        """
        began_ms = self._clock.monotonic_ms()
        snapshot = await self._snapshots.snapshot(group)
        # In reverse: pending sessions are mostly the newest.
        pending = any(_is_pending(session) for session in reversed(snapshot.sessions))
        try:
            timed = await self._schedule(snapshot, fence, report, pending=pending)
        except (FencedOut, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001  # a bad profile or a broken plugin of one group
            text = ": ".join(code_and_detail(error))
            if self._failed_groups.get(group) != text:
                self._failed_groups[group] = report.failed_groups[group] = text
                report.blocked[group] = [one.session_id for one in snapshot.sessions if _is_pending(one)]
            return 0
        self._failed_groups.pop(group, None)
        took_ms = self._clock.monotonic_ms() - began_ms
        return max(0 if timed else _REPEATED_AFTER_MS, round(took_ms / _REPEATED_PART))

    async def _schedule(
        self, snapshot: SystemSnapshot, fence: Fence | None, report: CycleReport, *, pending: bool
    ) -> bool:
        """Decide and allocate; whether the same snapshot may be decided otherwise later."""
        group = snapshot.scaling_group.name
        leaves_ms = leaves_at(snapshot)
        if leaves_ms is not None and leaves_ms > snapshot.now_ms:
            self._wake_in(leaves_ms - snapshot.now_ms)
        if not pending and (leaves_ms is None or leaves_ms > snapshot.now_ms):
            await self._verdicts.write(group, ())
            self.plans.drop(group)
            return False
        began_ms = self._clock.monotonic_ms()
        profile = profile_of(snapshot.scaling_group)
        left, shown = self.plans.take_left(snapshot, self._snapshots.marks), self.plans.without_hidden(snapshot)
        self._changed |= shown is not snapshot  # the next cycle decides on the others
        plan = await self._decide(self.plans.with_left(shown, left), profile)
        report.decide_s = (report.decide_s or 0.0) + (self._clock.monotonic_ms() - began_ms) / 1000
        whole = self.plans.joined(snapshot, plan, self._snapshots.marks, left)
        await self.plans.allocate(group, whole, fence, report)
        verdicts = whole.verdicts
        recorded = await self._snapshots.record_plan(group, plan, fence=fence)
        report.evicted += recorded.evicted
        if recorded.refused or recorded.spared or report.refused:
            self._wake_in(_AFTER_REFUSAL_MS)
        await self._verdicts.write(group, verdicts)
        report.never.update({one.session_id: one for one in final_verdicts(verdicts)})
        report.waiting += sum(verdict.code is not Code.PLACED for verdict in verdicts)
        times = [at_ms for at_ms in _times(snapshot, verdicts) if at_ms > snapshot.now_ms]
        if times:
            self._wake_in(min(times) - snapshot.now_ms)
        return depends_on_time(snapshot, profile)

    async def _apply_next(self, group: ScalingGroupName, fence: Fence | None, report: CycleReport) -> None:
        """Allocate the next slice of a plan, of which a decision for all follows."""
        self._changed = True
        refused = len(report.refused)
        left = await self.plans.allocate_next(group, fence, report)
        if len(report.refused) > refused:
            self._wake_in(_AFTER_REFUSAL_MS)
            await self._verdicts.write(group, left.verdicts)

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


def _is_pending(session: SessionWorkload) -> bool:
    return any(kernel.agent is None for kernel in session.kernels)

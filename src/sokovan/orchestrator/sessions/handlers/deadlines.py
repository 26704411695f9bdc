"""Enforces deadlines: of transient kernel states, waiting, running and idleness."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.lifecycle.kernel import KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import Change, KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import alive_kernels, failed_start, pending_kernels
from sokovan.orchestrator.sessions.handlers.start import creation_step
from sokovan.orchestrator.sessions.session_cache import UNPREPARED, Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator
from sokovan.wire.api.sessions import PENDING_TIMEOUT

TIME_LIMIT = "time-limit"
LIFETIME_LIMIT = "lifetime-limit"
IDLE_TIMEOUT = "idle-timeout"
TERMINATION_TIMEOUT = "termination-timeout"
# An overdue termination is recorded at doubling intervals.
_OVERDUE_DOUBLINGS_MAX = 6
# Sessions withdrawn in one sweep of a scaling group; the rest follows in the next.
_WITHDRAWN_AT_ONCE_MAX = 1_000
# Steps of the coordinator itself, for a large session in slices: the kernels of the last one wait for the others.
_OWN_STEPS = frozenset({KernelStatus.SCHEDULED, KernelStatus.PREPARED})
# The kernel statuses with a deadline.
_TIMED = frozenset(KERNEL.transient)
_TRANSIENT = (Need.IMAGES, Need.CREATION, Need.CONFIRMATION, Need.TERMINATION, Need.KERNEL_END)


class EnforceDeadlines:
    """Ends sessions and kernels that exceed a deadline, by the store's clock."""

    name = "deadlines"

    def __init__(self, context: HandlerContext) -> None:
        self._sessions, self._writer, self._scheduler = context.sessions, context.writer, context.scheduler
        self._store, self._reports = context.store, context.reports
        self._overdue: dict[KernelId, int] = {}
        self._groups: Mapping[ScalingGroupName, ScalingGroup] = {}

    def clear(self) -> None:
        """Forget which terminations were recorded as overdue."""
        self._overdue.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Expire everything that is overdue."""
        sessions, writer = self._sessions, self._writer
        self._groups = {group.name: group for group in self._scheduler.scaling_groups()}
        checked = {one.session_id: one for need in _TRANSIENT for one in sessions.needing(need)}
        checked |= {one.session_id: one for one in self._running() if self._overtime(one) is not None}
        plans = writer.decide(
            self.name, checked.values(), lambda session: self._steps(session, cycle.agents), all_at_once=True
        )
        plans += writer.decide(self.name, await self._pending_too_long(), _withdrawal, all_at_once=True)
        moved = await writer.move(self.name, plans)
        stuck = [one.session_id for one in sessions.needing(Need.TERMINATION) if self._is_stuck(one)]
        change = by_coordinator(TERMINATION_TIMEOUT, "its kernels did not end in time; what they hold stays taken")
        forced = await writer.set_goal(self.name, stuck, Goal.FORCE, change)
        self._overdue = {one: times for one, times in self._overdue.items() if sessions.kernel(one) is not None}
        return bool(moved or forced)

    def _running(self) -> list[SessionRecord]:
        """The running sessions that may have a limit; rarely all of them."""
        limited = any(group.lifetime_max_s is not None for group in self._groups.values())
        return self._sessions.needing(Need.SUPERVISION if limited else Need.TIME_LIMIT)

    def _overtime(self, session: SessionRecord) -> Change | None:
        """The reason to end a session that has run too long; None if it has not."""
        if session.status is not SessionStatus.RUNNING:
            return None
        limit_s = session.spec.time_limit_s
        if limit_s is not None and self._exceeds(session.since_ms, limit_s):
            return by_coordinator(TIME_LIMIT, f"it ran for {duration_text(limit_s)}")
        group = self._groups.get(session.spec.scaling_group)
        most_s = None if group is None else group.lifetime_max_s
        if most_s is not None and self._exceeds(session.since_ms, most_s):
            detail = f"it ran for {duration_text(most_s)}, the most in scaling group {session.spec.scaling_group}"
            return by_coordinator(LIFETIME_LIMIT, detail)
        return self._idle_too_long(session)

    def _idle_too_long(self, session: SessionRecord) -> Change | None:
        """The reason to end a session of which every kernel has been idle too long.

        A placed kernel that its agent has not reported on yet counts as active.
        """
        limit_s = session.spec.idle_timeout_s
        if limit_s is None:
            return None
        placed = [one for one in session.kernels if one.agent_id is not None and one.status not in KERNEL.terminal]
        reports = [self._reports.listed(kernel) for kernel in placed]
        idle = [one for one in reports if one is not None and one.idle_s is not None and one.idle_s >= limit_s]
        if not placed or len(idle) < len(placed):
            return None
        detail = f"it was idle for {duration_text(limit_s)}: no shell, no command and no CPU use"
        return by_coordinator(IDLE_TIMEOUT, detail)

    def _steps(self, session: SessionRecord, agents: Mapping[AgentId, AgentInfo]) -> list[SessionStep]:
        steps: list[SessionStep] = []
        overtime = self._overtime(session)
        if overtime is not None:
            return [SessionStep(KernelTrigger.EXPIRED, overtime, alive_kernels(session))]
        timed, moved_ms = _timed(session), _moved_ms(session)
        for kernel in session.kernels:
            if kernel.status is KernelStatus.TERMINATING:
                steps += self._termination(kernel, agents, grace_s=_grace_s(session))
            elif kernel.status in timed:
                seconds = KERNEL.deadlines[kernel.status].seconds
                since_ms = moved_ms if kernel.status in _OWN_STEPS else kernel.since_ms
                if seconds is not None and self._exceeds(since_ms, seconds):
                    detail = f"kernel {kernel.index} was {kernel.status} for more than {duration_text(seconds)}"
                    change = by_coordinator(f"{kernel.status}-timeout", detail)
                    expired = SessionStep(KernelTrigger.EXPIRED, change, (kernel.kernel_id,))
                    return [failed_start(session, expired)]
        return steps

    def _termination(
        self, kernel: KernelRecord, agents: Mapping[AgentId, AgentInfo], *, grace_s: int
    ) -> list[SessionStep]:
        """Record that a termination is overdue, unless the agent is lost or gone."""
        agent = agents.get(kernel.agent_id or AgentId(""))
        seconds = KERNEL.deadlines[KernelStatus.TERMINATING].seconds
        if seconds is None or agent is None or agent.status in {AgentStatus.LOST, AgentStatus.TERMINATED}:
            return []
        times = self._overdue.get(kernel.kernel_id, 0)
        if not self._exceeds(kernel.since_ms, grace_s + (seconds << min(times, _OVERDUE_DOUBLINGS_MAX))):
            return []
        self._overdue[kernel.kernel_id] = times + 1
        change = by_coordinator("termination-overdue", f"agent {kernel.agent_id} has not ended it yet")
        return [SessionStep(KernelTrigger.OVERDUE, change, (kernel.kernel_id,))]

    async def _pending_too_long(self) -> list[SessionRecord]:
        if not self._sessions.count(Need.SCHEDULING):
            return []
        found: list[SessionRecord] = []
        for group in self._groups.values():
            if group.pending_timeout_s is not None:
                until_ms = self._sessions.now_ms - group.pending_timeout_s * 1000
                found += await self._eligible_since(group.name, until_ms)
        return found

    async def _eligible_since(self, group: ScalingGroupName, until_ms: int) -> list[SessionRecord]:
        """Pending sessions that nothing has held since then.

        The last cycle must agree: after a restart each session is tried once more, and a
        quota may hold a session although that is not stored yet.
        """
        ids = await self._store.read(
            lambda unit: unit.verdicts.eligible_before(group, until_ms, limit=_WITHDRAWN_AT_ONCE_MAX)
        )
        eligible = [one for one in ids if self._scheduler.is_eligible(group, one)]
        found = [session for one in eligible if (session := self._sessions.get(one)) is not None]
        return [session for session in found if session.status is SessionStatus.PENDING]

    def _is_stuck(self, session: SessionRecord) -> bool:
        seconds = SESSION.deadlines[SessionStatus.TERMINATING].seconds
        terminating = session.status is SessionStatus.TERMINATING
        return terminating and seconds is not None and self._exceeds(session.since_ms, seconds + _grace_s(session))

    def _exceeds(self, since_ms: int, seconds: int) -> bool:
        return self._sessions.now_ms - since_ms >= seconds * 1000


def _grace_s(session: SessionRecord) -> int:
    """The grace period of its kernels, which delays their deadlines."""
    forced = session.goal is Goal.FORCE or session.status in SESSION.terminal
    return 0 if forced else session.spec.stop_grace_s


def _moved_ms(session: SessionRecord) -> int:
    """When a kernel of the session moved last."""
    return max((kernel.since_ms for kernel in session.kernels), default=0)


def _timed(session: SessionRecord) -> frozenset[KernelStatus]:
    """The kernel statuses that have a deadline now.

    Prepared kernels have none while they wait for others of their gang: those have own
    deadlines, or wait to be placed again after a failed start.
    """
    statuses = {one.status for one in session.kernels}
    if KernelStatus.PREPARED not in statuses:
        return _TIMED
    waits = not statuses.isdisjoint(UNPREPARED) or not creation_step(session).kernels
    return _TIMED - {KernelStatus.PREPARED} if waits else _TIMED


def _withdrawal(session: SessionRecord) -> list[SessionStep]:
    change = by_coordinator(PENDING_TIMEOUT, "it was not scheduled within the pending timeout of its scaling group")
    return [SessionStep(KernelTrigger.WITHDRAWN, change, pending_kernels(session))]

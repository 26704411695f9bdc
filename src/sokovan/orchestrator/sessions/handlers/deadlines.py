"""Ends what lasts longer than it may: states with a deadline, waiting, running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator

TIME_LIMIT = "time-limit"
PENDING_TIMEOUT = "pending-timeout"
TERMINATION_TIMEOUT = "termination-timeout"
# An end that does not come is put on record ever more rarely.
_OVERDUE_DOUBLINGS_MAX = 6
_UNPREPARED = frozenset({KernelStatus.SCHEDULED, KernelStatus.PREPARING, KernelStatus.PULLING})
_TRANSIENT = (Need.IMAGES, Need.A_START, Need.NEWS, Need.AN_END, Need.A_LIMIT)

# Every scaling group as the configuration has it.
ScalingGroups = Callable[[], Awaitable[Sequence[ScalingGroup]]]


class EnforceDeadlines:
    """Compares how long things last with how long they may, by the store's time."""

    name = "overdue"

    def __init__(self, bench: HandlerContext, groups: ScalingGroups) -> None:
        self._bench, self._groups = bench, groups
        self._overdue: dict[KernelId, int] = {}

    def clear(self) -> None:
        """Forget whose end was overdue."""
        self._overdue.clear()

    async def handle(self, seen: Cycle) -> bool:
        """Expire what is overdue."""
        bench, writer = self._bench, self._bench.writer
        found = {one.session_id: one for need in _TRANSIENT for one in bench.live.needing(need)}
        plans = writer.decide(self.name, found.values(), lambda session: self._steps(session, seen.agents))
        plans += writer.decide(self.name, await self._waited_too_long(), _withdrawn)
        moved = await writer.move(self.name, plans)
        stuck = [one.session_id for one in bench.live.needing(Need.AN_END) if self._is_stuck(one)]
        change = by_coordinator(TERMINATION_TIMEOUT, "its kernels did not end in time; what they hold stays taken")
        forced = await writer.set_goal(self.name, stuck, Goal.FORCE, change)
        self._overdue = {one: times for one, times in self._overdue.items() if bench.live.session_of(one) is not None}
        return bool(moved or forced)

    def _steps(self, session: SessionRecord, agents: Mapping[AgentId, AgentInfo]) -> list[SessionStep]:
        steps: list[SessionStep] = []
        limit_s = session.spec.time_limit_s
        if session.status is SessionStatus.RUNNING and limit_s is not None and self._lasts(session.since_ms, limit_s):
            alive = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status in ALIVE)
            return [SessionStep(KernelTrigger.EXPIRED, by_coordinator(TIME_LIMIT, f"it ran for {limit_s} s"), alive)]
        for kernel in session.kernels:
            if kernel.status is KernelStatus.TERMINATING:
                steps += self._termination(kernel, agents, grace_s=_grace_s(session))
            elif kernel.status in KERNEL.transient and not _waits_for_others(session, kernel):
                seconds = KERNEL.deadlines[kernel.status].seconds
                if seconds is not None and self._lasts(kernel.since_ms, seconds):
                    detail = f"kernel {kernel.index} was {kernel.status} for more than {seconds} s"
                    change = by_coordinator(f"{kernel.status}-timeout", detail)
                    steps.append(SessionStep(KernelTrigger.EXPIRED, change, (kernel.kernel_id,)))
        return steps

    def _termination(
        self, kernel: KernelRecord, agents: Mapping[AgentId, AgentInfo], *, grace_s: int
    ) -> list[SessionStep]:
        """Say that an end is overdue; nobody can be blamed while the agent is lost."""
        agent = agents.get(kernel.agent_id or AgentId(""))
        seconds = KERNEL.deadlines[KernelStatus.TERMINATING].seconds
        if seconds is None or agent is None or agent.status in {AgentStatus.LOST, AgentStatus.TERMINATED}:
            return []
        times = self._overdue.get(kernel.kernel_id, 0)
        if not self._lasts(kernel.since_ms, grace_s + (seconds << min(times, _OVERDUE_DOUBLINGS_MAX))):
            return []
        self._overdue[kernel.kernel_id] = times + 1
        change = by_coordinator("termination-overdue", f"agent {kernel.agent_id} has not ended it yet")
        return [SessionStep(KernelTrigger.OVERDUE, change, (kernel.kernel_id,))]

    async def _waited_too_long(self) -> list[SessionRecord]:
        if not self._bench.live.count(Need.A_PLACE):
            return []
        limits_s = {group.name: group.pending_timeout_s for group in await self._groups()}
        if all(limit_s is None for limit_s in limits_s.values()):
            return []
        found: list[SessionRecord] = []
        for session in self._bench.live.needing(Need.A_PLACE):
            limit_s = limits_s.get(session.spec.scaling_group)
            # One that runs and would grow needs a place as well, and may wait for it.
            waits = session.status is SessionStatus.PENDING
            if waits and limit_s is not None and self._lasts(session.submitted_ms, limit_s):
                found.append(session)
        return found

    def _is_stuck(self, session: SessionRecord) -> bool:
        seconds = SESSION.deadlines[SessionStatus.TERMINATING].seconds
        terminating = session.status is SessionStatus.TERMINATING
        return terminating and seconds is not None and self._lasts(session.since_ms, seconds + _grace_s(session))

    def _lasts(self, since_ms: int, seconds: int) -> bool:
        return self._bench.live.now_ms - since_ms >= seconds * 1000


def _grace_s(session: SessionRecord) -> int:
    """How long its kernels may take to end once they were asked; nothing is late before."""
    forced = session.goal is Goal.FORCE or session.status in SESSION.terminal
    return 0 if forced else session.spec.stop_grace_s


def _waits_for_others(session: SessionRecord, kernel: KernelRecord) -> bool:
    """A kernel that is ready waits for the rest of its gang, whose own deadlines run."""
    others = any(one.status in _UNPREPARED for one in session.kernels)
    return kernel.status is KernelStatus.PREPARED and others


def _withdrawn(session: SessionRecord) -> list[SessionStep]:
    waiting = tuple(kernel.kernel_id for kernel in session.kernels if kernel.status is KernelStatus.PENDING)
    detail = "it did not find a place within the time that its scaling group gives it"
    return [SessionStep(KernelTrigger.WITHDRAWN, by_coordinator(PENDING_TIMEOUT, detail), waiting)]

"""Moves agents without heartbeats to SUSPECT and LOST, and back when they return."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.orchestrator.agent_recovery import AWAY, rejoin
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.session_writer import by_coordinator
from sokovan.ports.storage import UnitOfWork

_MISSED = by_coordinator("heartbeat-missed")


class HeartbeatMonitor:
    """Compares the age of each agent's last heartbeat with the timeouts.

    The age counts from the last report that was new to this coordinator, and not from
    before it led: a manager that was down received no heartbeats.
    """

    name = "heartbeats"

    def __init__(self, context: HandlerContext) -> None:
        self._reports, self._batches, self._clock = context.reports, context.batches, context.clock
        self._timing = context.timing
        self._known_ms: dict[AgentId, int] = {}

    def clear(self) -> None:
        """Forget since when agents are known."""
        self._known_ms.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Move every agent whose heartbeat is overdue or has resumed."""
        moves = [(one, trigger) for one, info in cycle.agents.items() if (trigger := self._trigger(info)) is not None]
        if not moves:
            return False
        written = await self._batches.write(moves, _move_agents)
        return any(written.results)

    def _trigger(self, info: AgentInfo) -> AgentTrigger | None:
        if info.status is AgentStatus.TERMINATED:
            self._reports.forget(info.agent_id)
            return None
        now_ms, timeouts = self._clock.monotonic_ms(), self._timing.current.heartbeats
        heard_ms = self._reports.heard_ms(info.agent_id)
        since_ms = max(heard_ms or 0, self._known_ms.setdefault(info.agent_id, now_ms))
        age_ms = now_ms - since_ms
        if info.status in AWAY and heard_ms is not None and age_ms < timeouts.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_RESUMED if info.status is AgentStatus.SUSPECT else AgentTrigger.REJOINED
        if info.status is AgentStatus.ALIVE and age_ms >= timeouts.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_MISSED
        if info.status in {AgentStatus.SUSPECT, AgentStatus.DRAINING} and age_ms >= timeouts.lost_after_ms:
            return AgentTrigger.DECLARED_LOST
        return None


async def _move_agents(unit: UnitOfWork, batch: Sequence[tuple[AgentId, AgentTrigger]]) -> Sequence[bool]:
    return [await _move(unit, agent_id, trigger) for agent_id, trigger in batch]


async def _move(unit: UnitOfWork, agent_id: AgentId, trigger: AgentTrigger) -> bool:
    if trigger in {AgentTrigger.HEARTBEAT_RESUMED, AgentTrigger.REJOINED}:
        return await rejoin(unit, agent_id)
    agent = await unit.fleet.get(agent_id)
    if trigger not in AGENT.legal_in(agent.info.status):
        return False  # it was moved concurrently
    await unit.fleet.move(agent, trigger, _MISSED)
    return True

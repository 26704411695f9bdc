"""Agents that fall silent: suspected first, lost later, welcome back any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AGENT, AgentStatus, AgentTrigger
from sokovan.orchestrator.agent_recovery import came_back
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.session_writer import by_coordinator
from sokovan.ports.storage import UnitOfWork

_SILENT = by_coordinator("heartbeat-missed")
_AWAY = frozenset({AgentStatus.SUSPECT, AgentStatus.LOST})


@dataclass(frozen=True, slots=True)
class HeartbeatTimeouts:
    """How long silence lasts before it means something."""

    suspect_s: float = 15.0
    lost_s: float = 45.0  # after that

    @property
    def lost_after_ms(self) -> float:
        """From the last word to LOST."""
        return (self.suspect_s + self.lost_s) * 1000


class HeartbeatMonitor:
    """Moves agents by what is heard of them, on a clock of this process.

    Silence counts from the last report that was new to this coordinator, and not from
    before it led: a manager that was away has heard nobody.
    """

    name = "silence"

    def __init__(
        self, bench: HandlerContext, batches: BatchWriter, *, patience: HeartbeatTimeouts | None = None
    ) -> None:
        self._bench, self._batches = bench, batches
        self._patience = patience or HeartbeatTimeouts()
        self._known_ms: dict[AgentId, int] = {}

    def clear(self) -> None:
        """Begin to listen."""
        self._known_ms.clear()

    async def handle(self, seen: Cycle) -> bool:
        """Compare every agent with when it was last heard."""
        wanted = [(one, trigger) for one, info in seen.agents.items() if (trigger := self._trigger(info)) is not None]
        if not wanted:
            return False
        written = await self._batches.write(wanted, _move_agents)
        return any(written.results)

    def _trigger(self, info: AgentInfo) -> AgentTrigger | None:
        if info.status is AgentStatus.TERMINATED:
            self._bench.reports.forget(info.agent_id)
            return None
        now_ms = self._bench.clock.monotonic_ms()
        heard_ms = self._bench.reports.heard_ms(info.agent_id)
        since_ms = max(heard_ms or 0, self._known_ms.setdefault(info.agent_id, now_ms))
        silent_ms = now_ms - since_ms
        if info.status in _AWAY and heard_ms is not None and silent_ms < self._patience.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_RESUMED if info.status is AgentStatus.SUSPECT else AgentTrigger.REJOINED
        if info.status is AgentStatus.ALIVE and silent_ms >= self._patience.suspect_s * 1000:
            return AgentTrigger.HEARTBEAT_MISSED
        if info.status in {AgentStatus.SUSPECT, AgentStatus.DRAINING} and silent_ms >= self._patience.lost_after_ms:
            return AgentTrigger.DECLARED_LOST
        return None


async def _move_agents(unit: UnitOfWork, batch: Sequence[tuple[AgentId, AgentTrigger]]) -> Sequence[bool]:
    return [await _move(unit, agent_id, trigger) for agent_id, trigger in batch]


async def _move(unit: UnitOfWork, agent_id: AgentId, trigger: AgentTrigger) -> bool:
    if trigger in {AgentTrigger.HEARTBEAT_RESUMED, AgentTrigger.REJOINED}:
        return await came_back(unit, agent_id)
    agent = await unit.fleet.get(agent_id)
    if trigger not in AGENT.legal_in(agent.info.status):
        return False  # it was moved since we looked
    await unit.fleet.move(agent, trigger, _SILENT)
    return True

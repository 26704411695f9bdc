"""The latest heartbeats, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.ids import AgentId
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock


class InProcessAgentStates:
    """The AgentStateCache port inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[AgentId, tuple[AgentState, float]] = {}

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """Store this state for `ttl_s` unless a later one is known; whether it was stored."""
        known = await self.get(state.agent_id)
        if known is not None and (known.incarnation, known.sequence) > (state.incarnation, state.sequence):
            return False
        self._known[state.agent_id] = (state, self._clock.monotonic_ms() + ttl_s * 1000)
        return True

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """The latest state, or None if it is unknown or stale."""
        state, stale_at_ms = self._known.get(agent_id, (None, 0.0))
        return state if stale_at_ms > self._clock.monotonic_ms() else None

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """All agents whose state is not stale; removes stale states."""
        now_ms = self._clock.monotonic_ms()
        for agent_id in [agent_id for agent_id, (_, stale_at_ms) in self._known.items() if stale_at_ms <= now_ms]:
            del self._known[agent_id]
        return {agent_id: state for agent_id, (state, _) in self._known.items()}

    async def drop(self, agent_id: AgentId) -> None:
        """Remove the state of an agent."""
        self._known.pop(agent_id, None)

    async def close(self) -> None:
        """Do nothing; there are no resources."""

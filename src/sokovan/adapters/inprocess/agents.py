"""The latest heartbeats, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from sokovan.domain.ids import AgentId
from sokovan.ports.agent_states import AgentState
from sokovan.ports.environment import Clock


class InProcessAgentStates:
    """The AgentStateCache port inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[AgentId, AgentState] = {}
        self._stale_ms: dict[AgentId, float] = {}
        # No state is stale before this: each cycle reads all of them, and most are renewed long before.
        self._first_stale_ms = inf

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """Store this state for `ttl_s` unless a later one is known; whether it was stored."""
        known = await self.get(state.agent_id)
        if known is not None and (known.incarnation, known.sequence) > (state.incarnation, state.sequence):
            return False
        self._known[state.agent_id] = state
        self._stale_ms[state.agent_id] = stale_ms = self._clock.monotonic_ms() + ttl_s * 1000
        self._first_stale_ms = min(self._first_stale_ms, stale_ms)
        return True

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """The latest state, or None if it is unknown or stale."""
        is_fresh = self._stale_ms.get(agent_id, 0.0) > self._clock.monotonic_ms()
        return self._known[agent_id] if is_fresh else None

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """All agents whose state is not stale; removes stale states."""
        now_ms = self._clock.monotonic_ms()
        if self._first_stale_ms <= now_ms:
            for agent_id in [agent_id for agent_id, stale_ms in self._stale_ms.items() if stale_ms <= now_ms]:
                await self.drop(agent_id)
            self._first_stale_ms = min(self._stale_ms.values(), default=inf)
        return self._known.copy()

    async def drop(self, agent_id: AgentId) -> None:
        """Remove the state of an agent."""
        self._known.pop(agent_id, None)
        self._stale_ms.pop(agent_id, None)

    async def close(self) -> None:
        """Do nothing; there are no resources."""

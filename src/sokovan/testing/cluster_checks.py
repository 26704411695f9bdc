"""Inspects a cluster for tests: statuses, histories, invariants."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.records import HistoryEntry, SessionRecord
from sokovan.testing.acting_agents import ActingAgents


class ClusterChecks:
    """Reads the state of a cluster, and checks its invariants."""

    store: SqlStore
    agents: ActingAgents

    async def session(self, id_: str) -> SessionRecord:
        """The current record of a session."""
        return await self.store.read(lambda unit: unit.sessions.get(SessionId(id_)))

    async def status(self, id_: str) -> str:
        """The status of a session, as text."""
        return (await self.session(id_)).status.value

    async def history(self, id_: str, *, kernels: bool = False) -> list[HistoryEntry]:
        """The history of a session, in the order of time."""
        entries = await self.store.read(lambda unit: unit.sessions.history(SessionId(id_), kernels=kernels))
        return [entry for _, entry in entries]

    async def codes(self, id_: str) -> list[str]:
        """The codes of a session's history that are not empty."""
        return [entry.change.code for entry in await self.history(id_) if entry.change.code]

    async def used(self, agent: str) -> Mapping[str, int]:
        """Occupied slots of an agent."""
        found = await self.store.read(lambda unit: unit.fleet.get(AgentId(agent)))
        return dict(found.info.occupied_slots.items())

    async def check_invariants(self) -> None:
        """Check the store's invariants, and that no agent started a kernel twice."""
        broken = [finding for finding in await audit(self.store) if not finding.holds]
        if broken:
            rows = "; ".join(f"{finding.invariant.id} {finding.rows[:2]}" for finding in broken)
            raise AssertionError(f"invariants are violated: {rows}")
        for agent in self.agents.all.values():
            twice = [key for key, times in agent.started.items() if times > 1]
            if twice:
                raise AssertionError(f"started twice on {agent.agent_id}: {twice}")

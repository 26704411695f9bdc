"""Looks at a cluster for a test: statuses, stories, and whether the laws hold."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.store import SqlStore
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.records import HistoryEntry, SessionRecord
from sokovan.testing.acting_agents import ActingAgents


class Witness:
    """What can be seen of a cluster from outside."""

    store: SqlStore
    agents: ActingAgents

    async def session(self, id_: str) -> SessionRecord:
        """A session as it is now."""
        return await self.store.read(lambda unit: unit.sessions.get(SessionId(id_)))

    async def status(self, id_: str) -> str:
        """The status of a session, as a word."""
        return (await self.session(id_)).status.value

    async def story(self, id_: str, *, kernels: bool = False) -> list[HistoryEntry]:
        """The history of a session, in the order of time."""
        lines = await self.store.read(lambda unit: unit.sessions.history(SessionId(id_), kernels=kernels))
        return [entry for _, entry in lines]

    async def codes(self, id_: str) -> list[str]:
        """The codes of a session's history that are not empty."""
        return [entry.change.code for entry in await self.story(id_) if entry.change.code]

    async def used(self, agent: str) -> Mapping[str, int]:
        """What is taken on an agent."""
        found = await self.store.read(lambda unit: unit.fleet.get(AgentId(agent)))
        return dict(found.info.occupied_slots.items())

    async def check_laws(self) -> None:
        """Every invariant that rows can tell, and that no machine ran anything twice."""
        broken = [finding for finding in await audit(self.store) if not finding.holds]
        if broken:
            rows = "; ".join(f"{finding.invariant.id} {finding.rows[:2]}" for finding in broken)
            raise AssertionError(f"laws are broken: {rows}")
        for agent in self.agents.all.values():
            twice = [key for key, times in agent.started.items() if times > 1]
            if twice:
                raise AssertionError(f"started twice on {agent.agent_id}: {twice}")

"""Agents as the store has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.records import AgentRecord, Change, Device, HistoryEntry


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """What a scaling group's agents are.

    How many have which architecture, and the slots that any of them has.
    """

    architectures: Mapping[str, int] = field(default_factory=dict)
    slots: frozenset[str] = frozenset()


class AgentRepository(Protocol):
    """Every agent that ever joined, with what it has and what is taken."""

    async def enrol(
        self,
        info: AgentInfo,
        change: Change,
        *,
        devices: Sequence[Device] = (),
        adopted: Sequence[tuple[KernelId, int]] = (),
    ) -> AgentRecord:
        """A new incarnation of this agent; ALIVE, or DRAINING if it was.

        Slots that kernels still hold stay taken: a capacity never falls below them, and
        shrinks to what was reported as they are freed. `adopted` are kernels, by attempt,
        that the agent found running and took over: they belong to the new incarnation,
        and only its word frees them. Raises Conflict for an agent
        that has left for good.
        """

    async def get(self, agent_id: AgentId) -> AgentRecord:
        """One agent. Raises NotFound."""

    async def all(self, *, scaling_group: str = "", after: str = "", limit: int | None = None) -> Sequence[AgentRecord]:
        """Every agent (of a scaling group), by id; or the first `limit` after an id."""

    async def profiles(self) -> Mapping[str, AgentProfile]:
        """What each scaling group is made of; agents that have left do not count."""

    async def move(self, agent: AgentRecord, trigger: AgentTrigger, change: Change) -> AgentRecord:
        """Take a move of the table.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def history(self, agent_id: AgentId) -> Sequence[HistoryEntry]:
        """The story of an agent."""

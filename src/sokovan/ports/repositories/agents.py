"""Repository of agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.records import AgentRecord, Change, Device, HistoryEntry


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """The architectures and slots of a scaling group's agents.

    Architectures with their number of agents, and the slots that any of them has. `memory`
    is the least memory of the agents that have a slot, by the amount that they have of it;
    agents that cannot take work count only where no other agent has that amount. `open`:
    some agent does not isolate its kernels from each other. `runtimes` are those that its
    agents report; empty for an agent that reports none.
    """

    architectures: Mapping[str, int] = field(default_factory=dict)
    slots: frozenset[str] = frozenset()
    memory: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    open: bool = False
    runtimes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SlotRoom:
    """The free amount of a slot on the agents that take work.

    In total, the most on one agent, and the most that one agent has.
    """

    free: int
    most_free: int
    most: int


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent that enrols for the first time."""

    info: AgentInfo
    change: Change
    devices: tuple[Device, ...] = ()


class AgentRepository(Protocol):
    """Every agent that ever enrolled, with its capacity and usage."""

    async def enrol_new(self, agents: Sequence[NewAgent]) -> bool:
        """Store the first incarnation of agents, with as many statements as for one.

        False, and nothing is stored, if one of them is known already. Raises ObjectNotFound
        for a scaling group.
        """

    async def enrol(
        self,
        info: AgentInfo,
        change: Change,
        *,
        devices: Sequence[Device] = (),
        adopted: Sequence[tuple[KernelId, int]] = (),
    ) -> AgentRecord:
        """Store a new incarnation of this agent: ALIVE, or DRAINING if it was.

        Slots that kernels still hold stay taken: the capacity never falls below them, and
        shrinks to the reported value as they are freed. `adopted` are kernels, by
        attempt, that the agent found running and took over: they belong to the new
        incarnation, which alone may report them gone. Raises Conflict for an agent that
        has left for good.
        """

    async def get(self, agent_id: AgentId) -> AgentRecord:
        """One agent. Raises ObjectNotFound."""

    async def all(
        self,
        *,
        scaling_group: str = "",
        after: str = "",
        limit: int | None = None,
        named: Sequence[AgentId] | None = None,
        known: Mapping[AgentId, AgentRecord] | None = None,
    ) -> Sequence[AgentRecord]:
        """Every agent (of a scaling group), by id; or the first `limit` after an id.

        With `named`, those of these that are known. Of those that are `known` only what has
        been written since is read; what they release may be older.
        """

    async def profiles(self) -> Mapping[str, AgentProfile]:
        """The profile of each scaling group; agents that have left do not count."""

    async def rooms(self) -> Mapping[tuple[str, str], Mapping[str, SlotRoom]]:
        """The room of agents that take work, by scaling group and architecture, and slot."""

    async def move(self, agent: AgentRecord, trigger: AgentTrigger, change: Change) -> AgentRecord:
        """Apply a transition.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def set_health(self, agent: AgentRecord, health: AgentHealth, change: Change | None = None) -> AgentRecord:
        """Replace the health that was read; with a change, its history has a note.

        Devices with a fault are allocated no more, and the capacity shrinks by them as their
        slots are freed; without it both are as before.
        Raises StaleVersion if the health has changed since.
        """

    async def add_images(self, agent_id: AgentId, incarnation: int, images: Collection[str]) -> None:
        """Add images that an agent has ready; another incarnation than its own adds none."""

    async def history(self, agent_id: AgentId) -> Sequence[HistoryEntry]:
        """The history of an agent."""

"""Base classes of selectors, which rank the agents that fit.

A selector has a plain form, `select(requirements, agents, criteria)` over objects,
and two vector forms: keyed (`static_rank` and `weight`, updated agent by agent), and
`score` over arrays of candidates. A plugin implements any of them; the engine prefers
the keyed form, then `score`, then `select`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import SLOT_PRIORITY_DEFAULT
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, AgentId
from sokovan.domain.slots import ResourceSlot, is_accelerator
from sokovan.scheduling.engine.workspace import ONE, ONE_BITS, Ints, Workspace
from sokovan.scheduling.selectors.exceptions import (
    AgentSelectionError,
    ArchitectureIncompatibleError,
    ContainerLimitExceededError,
    InsufficientResourcesError,
    NoAvailableAgentError,
    NoCompatibleAgentError,
)


@dataclass(frozen=True, slots=True)
class ResourceRequirements:
    """The requirements of one kernel."""

    requested_slots: ResourceSlot
    architecture: str | None = ARCHITECTURE_DEFAULT
    require: Mapping[str, str] = field(default_factory=dict)
    image: str = ""


@dataclass(frozen=True, slots=True)
class AgentSelectionCriteria:
    """The selection settings of the scaling group.

    `largest` is the largest amount of each slot that any agent has; agent sizes are
    relative to it. `last_agent` is the agent that was chosen before.
    """

    slot_priority: tuple[str, ...] = SLOT_PRIORITY_DEFAULT
    largest: ResourceSlot | None = None
    last_agent: AgentId | None = None


@dataclass(frozen=True, slots=True)
class AgentSelection:
    """The agent that was chosen."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class Candidates:
    """The agents that fit, as arrays: row i of each belongs to `ids[i]`.

    `id_rank` is the position of each among all agents by id; `last_rank` is the position
    after the agent that was chosen before. `agents` are those of the snapshot: read
    labels and images from them, not free amounts.
    """

    ids: tuple[str, ...]
    slots: tuple[str, ...]
    capacity: Ints
    idle: Ints
    occupancy: Ints
    id_rank: Ints
    last_rank: int
    agents_total: int
    agents: tuple[AgentInfo, ...]
    slot_priority: tuple[str, ...]
    requirements: ResourceRequirements


class AgentSelector:
    """Chooses one agent for one kernel among those that fit."""

    name: ClassVar[str] = ""
    # Choosing an agent does not make it less preferred, so the engine may place equal kernels by array.
    fills: ClassVar[bool] = False
    # The plan passes the last agent to the next cycle.
    rotates: ClassVar[bool] = False

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The agent for the kernel, by `score` unless overridden.

        Raises AgentSelectionError if there is none.
        """
        left = sorted(candidates_of(requirements, agents), key=lambda agent: agent.agent_id)
        scores = self.score(as_candidates(left, agents, requirements, criteria))
        if scores is None:
            raise AgentSelectionError(f"selector {self.name} has neither select nor score")
        best = max(range(len(left)), key=lambda index: (int(scores[index]), -index))
        return AgentSelection(left[best].agent_id)

    def score(self, candidates: Candidates) -> Ints | None:
        """A score per candidate, the highest wins, ties by id; None if not implemented."""
        del candidates
        return None

    def static_rank(self, workspace: Workspace) -> Ints | None:
        """For the keyed form: the order at equal weight; None if not implemented."""
        del workspace
        return None

    def weight(self, occupancy: Ints) -> Ints:
        """For the keyed form: the preference for an occupancy, from 0 to ONE."""
        return occupancy

    def _filter_by_resources(self, agents: Sequence[AgentInfo], requirements: ResourceRequirements) -> list[AgentInfo]:
        """The agents that can take the kernel now, for custom selectors."""
        return [agent for agent in agents if fits_now(agent, requirements)]


class RankedSelector(AgentSelector, ABC):
    """A selector defined by a sort key, as the built-in ones are."""

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The candidate with the smallest rank; unused accelerators come last."""
        largest = criteria.largest if criteria.largest is not None else largest_of(agents)
        filled = AgentSelectionCriteria(criteria.slot_priority, largest, criteria.last_agent)
        best = min(
            candidates_of(requirements, agents),
            key=lambda agent: (unused_accelerators(agent, requirements), *self.rank(agent, filled)),
        )
        return AgentSelection(best.agent_id)

    @abstractmethod
    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """Smallest wins. End with the id, so that ties are deterministic."""


def candidates_of(requirements: ResourceRequirements, agents: Sequence[AgentInfo]) -> list[AgentInfo]:
    """The agents that can take the kernel. Raises AgentSelectionError if none can."""
    left = [agent for agent in agents if agent.schedulable]
    if not left:
        raise NoAvailableAgentError(f"none of {len(agents)} agents accepts work")
    left = [agent for agent in left if requirements.architecture in {None, agent.architecture}]
    if not left:
        raise ArchitectureIncompatibleError(f"no agent has the architecture {requirements.architecture}")
    left = [agent for agent in left if has_labels(agent, requirements.require)]
    if not left:
        raise NoCompatibleAgentError(f"no agent has the labels {dict(requirements.require)}")
    left = [agent for agent in left if has_room(agent, requirements.requested_slots)]
    if not left:
        raise InsufficientResourcesError(f"no agent has {requirements.requested_slots} free")
    left = [agent for agent in left if has_place(agent)]
    if not left:
        raise ContainerLimitExceededError("every agent that has room is at its kernel limit")
    return left


def as_candidates(
    left: Sequence[AgentInfo],
    agents: Sequence[AgentInfo],
    requirements: ResourceRequirements,
    criteria: AgentSelectionCriteria,
) -> Candidates:
    """Agents as arrays, for `score`."""
    slots = tuple(sorted({slot for agent in agents for slot in agent.available_slots}))
    ranked = sorted(agent.agent_id for agent in agents)
    capacity = np.array([[agent.available_slots[slot] for slot in slots] for agent in left], np.int64)
    used = np.array([[agent.occupied_slots[slot] for slot in slots] for agent in left], np.int64)
    return Candidates(
        ids=tuple(agent.agent_id for agent in left),
        slots=slots,
        capacity=capacity,
        idle=capacity - used,
        occupancy=np.array([occupancy_of(agent) for agent in left], np.int64),
        id_rank=np.array([ranked.index(agent.agent_id) for agent in left], np.int64),
        last_rank=bisect_right(ranked, criteria.last_agent) if criteria.last_agent is not None else 0,
        agents_total=len(agents),
        agents=tuple(left),
        slot_priority=criteria.slot_priority,
        requirements=requirements,
    )


def fits_now(agent: AgentInfo, requirements: ResourceRequirements) -> bool:
    """Whether an agent can take the kernel now."""
    return (
        agent.schedulable
        and requirements.architecture in {None, agent.architecture}
        and has_labels(agent, requirements.require)
        and has_room(agent, requirements.requested_slots)
        and has_place(agent)
    )


def has_labels(agent: AgentInfo, require: Mapping[str, str]) -> bool:
    """Whether an agent has every required label."""
    return all(agent.labels.get(name) == value for name, value in require.items())


def has_room(agent: AgentInfo, slots: ResourceSlot) -> bool:
    """Whether an agent has the slots free."""
    return all(amount <= agent.available_slots[slot] - agent.occupied_slots[slot] for slot, amount in slots.items())


def has_place(agent: AgentInfo) -> bool:
    """Whether an agent is below its kernel limit."""
    return agent.kernels_max is None or agent.kernel_count < agent.kernels_max


def unused_accelerators(agent: AgentInfo, requirements: ResourceRequirements) -> int:
    """How many kinds of accelerators the agent has that the kernel does not request."""
    return sum(1 for slot in agent.available_slots if is_accelerator(slot) and slot not in requirements.requested_slots)


def occupancy_of(agent: AgentInfo) -> int:
    """The largest used share of any slot, in fixed point."""
    shares = ((agent.occupied_slots[slot] << ONE_BITS) // capacity for slot, capacity in agent.available_slots.items())
    return min(max(shares, default=0), ONE)


def size_of(agent: AgentInfo, largest: ResourceSlot | None) -> int:
    """The size of an agent relative to the largest, summed over slots, in fixed point."""
    known = largest if largest is not None else agent.available_slots
    return sum((amount * ONE) // known[slot] for slot, amount in agent.available_slots.items() if known[slot])


def largest_of(agents: Sequence[AgentInfo]) -> ResourceSlot:
    """The largest amount of each slot that any of these agents has."""
    largest: dict[str, int] = {}
    for agent in agents:
        for slot, amount in agent.available_slots.items():
            largest[slot] = max(amount, largest.get(slot, 0))
    return ResourceSlot(largest)

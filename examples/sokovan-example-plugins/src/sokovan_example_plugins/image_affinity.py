"""A selector in the plain form: it looks at agents as objects, and names one."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.selectors.base import (
    AgentSelection,
    AgentSelectionCriteria,
    AgentSelector,
    ResourceRequirements,
    occupancy_of,
)
from sokovan.scheduling.selectors.exceptions import NoAvailableAgentError


class ImageAffinitySelector(AgentSelector):
    """Prefers agents that have the kernel's image already; among equals the idlest.

    A kernel starts sooner where nothing must be downloaded. Where no agent has the
    image, the idlest one has the most to spare for the download.
    """

    name = "image-affinity"

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The idlest agent that has the image, or else the idlest agent.

        The engine passes only agents that can take the kernel, now or once room is
        released, so there is nothing to filter. A tie ends with the id: the same
        agents give the same answer on every machine.
        """
        del criteria
        if not agents:
            raise NoAvailableAgentError(f"no agent is there for {requirements.image or 'the kernel'}")
        warm = [agent for agent in agents if requirements.image in agent.cached_images]
        best = min(warm or agents, key=lambda agent: (occupancy_of(agent), agent.agent_id))
        return AgentSelection(best.agent_id)

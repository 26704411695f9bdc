"""A selector in the plain form: gets agents as objects and returns one."""

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
    """Prefers agents that have the kernel's image, then the least occupied one.

    A kernel starts sooner without a download. If no agent has the image, the least
    occupied one has the most capacity for the download.
    """

    name = "image-affinity"

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The least occupied agent that has the image, otherwise the least occupied agent.

        The engine passes only agents that can take the kernel, now or after a release,
        so there is nothing to filter. Ties are broken by id: the same agents give the
        same result on every machine.
        """
        del criteria
        if not agents:
            raise NoAvailableAgentError(f"there is no agent for {requirements.image or 'the kernel'}")
        warm = [agent for agent in agents if requirements.image in agent.cached_images]
        best = min(warm or agents, key=lambda agent: (occupancy_of(agent), agent.agent_id))
        return AgentSelection(best.agent_id)

"""Spreading: use the idlest agent first, so that one failure hurts least."""

from __future__ import annotations

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import ONE, Ints, Workspace
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, RankedSelector, occupancy_of, size_of


class DispersedSelector(RankedSelector):
    """The lowest occupancy wins, then the larger agent, then the id."""

    name = "dispersed"

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """Idlest, then largest, then by id."""
        return (occupancy_of(agent), -size_of(agent, criteria.largest), agent.agent_id)

    def static_rank(self, workspace: Workspace) -> Ints:
        """Larger agents first, then by id."""
        ranks = np.empty(len(workspace.ids), np.int64)
        ranks[np.lexsort((workspace.id_rank, -workspace.size))] = np.arange(len(ranks))
        return ranks

    def weight(self, occupancy: Ints) -> Ints:
        """The idler the better. An agent that is over its capacity weighs nothing."""
        return np.maximum(ONE - occupancy, 0)

"""Spreading: uses the idlest agent first, to limit the effect of one failure."""

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
        """Lower occupancy is better. An agent over its capacity has weight 0."""
        return np.maximum(ONE - occupancy, 0)

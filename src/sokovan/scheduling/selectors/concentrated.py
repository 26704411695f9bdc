"""Bin-packing: fills the busiest agent first, so that whole agents stay free."""

from __future__ import annotations

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import Ints, Workspace
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, RankedSelector, occupancy_of, size_of


class ConcentratedSelector(RankedSelector):
    """The highest occupancy wins, then the smaller agent, then the id."""

    name = "concentrated"
    fills = True

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """Busiest, then smallest, then by id."""
        return (-occupancy_of(agent), size_of(agent, criteria.largest), agent.agent_id)

    def static_rank(self, workspace: Workspace) -> Ints:
        """Smaller agents first, then by id."""
        ranks = np.empty(len(workspace.ids), np.int64)
        ranks[np.lexsort((workspace.id_rank, workspace.size))] = np.arange(len(ranks))
        return ranks

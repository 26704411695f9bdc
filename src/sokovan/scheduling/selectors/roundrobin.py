"""Round-robin: each agent in turn, starting after the one that was chosen before.

The cursor is the last agent's id. Snapshot and plan carry it per scaling group, so
that the rotation continues across cycles and does not depend on the set of agents.
"""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, Candidates, RankedSelector


class RoundRobinSelector(RankedSelector):
    """The next agent by id after the last one, wrapping around."""

    name = "roundrobin"
    rotates = True

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """Agents after the last one first, then those before it, by id."""
        before = criteria.last_agent is not None and agent.agent_id <= criteria.last_agent
        return (before, agent.agent_id)

    def score(self, candidates: Candidates) -> Ints:
        """Agents closer after the last one score higher."""
        return -((candidates.id_rank - candidates.last_rank) % candidates.agents_total)

"""Rotation: each agent in turn, beginning after the one that was chosen before.

The cursor is the last agent's id. It is carried in snapshot and plan per scaling
group, so that the rotation goes on across cycles, and survives agents that come
and go.
"""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, Candidates, RankedSelector


class RoundRobinSelector(RankedSelector):
    """The next agent by id after the last one, and round again."""

    name = "roundrobin"
    rotates = True

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """Agents after the last one first, each part by id."""
        before = criteria.last_agent is not None and agent.agent_id <= criteria.last_agent
        return (before, agent.agent_id)

    def score(self, candidates: Candidates) -> Ints:
        """The fewer agents stand between the last one and this one, the better."""
        return -((candidates.id_rank - candidates.last_rank) % candidates.agents_total)

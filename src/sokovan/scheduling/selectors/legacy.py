"""Compatibility: most remaining resources first, in the group's slot priority."""

from __future__ import annotations

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, Candidates, RankedSelector


class LegacySelector(RankedSelector):
    """The most of the first slot by priority wins, then of the next, then the id.

    Slot names match exactly. Slots that the priority does not name do not count.
    """

    name = "legacy"

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """The remaining amounts in priority order, then the id."""
        remaining = (agent.available_slots[slot] - agent.occupied_slots[slot] for slot in criteria.slot_priority)
        return (*(-amount for amount in remaining), agent.agent_id)

    def score(self, candidates: Candidates) -> Ints:
        """The place of each candidate when all are sorted by what remains."""
        names = [name for name in candidates.slot_priority if name in candidates.slots]
        columns = [candidates.idle[:, candidates.slots.index(name)] for name in reversed(names)]
        scores = np.zeros(len(candidates.ids), np.int64)
        if columns:
            order = np.lexsort(columns)
            rows = np.stack(columns, axis=1)[order]
            # Candidates with equal amounts share a place, so that the id decides between them.
            steps = np.concatenate(([0], (rows[1:] != rows[:-1]).any(axis=1).cumsum()))
            scores[order] = steps
        return scores

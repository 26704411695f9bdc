"""Compatibility: most remaining resources first, by the group's slot priority."""

from __future__ import annotations

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.selectors.base import AgentSelectionCriteria, Candidates, RankedSelector


class LegacySelector(RankedSelector):
    """The most of the first slot by priority wins, then of the next, then the id.

    Slot names match exactly. Slots that are not in the priority list do not count.
    """

    name = "legacy"

    def rank(self, agent: AgentInfo, criteria: AgentSelectionCriteria) -> tuple[object, ...]:
        """The remaining amounts in priority order, then the id."""
        remaining = (agent.available_slots[slot] - agent.occupied_slots[slot] for slot in criteria.slot_priority)
        return (*(-amount for amount in remaining), agent.agent_id)

    def score(self, candidates: Candidates) -> Ints:
        """The position of each candidate when sorted by remaining amounts."""
        names = [name for name in candidates.slot_priority if name in candidates.slots]
        columns = [candidates.idle[:, candidates.slots.index(name)] for name in reversed(names)]
        scores = np.zeros(len(candidates.ids), np.int64)
        if columns:
            order = np.lexsort(columns)
            rows = np.stack(columns, axis=1)[order]
            # Candidates with equal amounts share a position, so that the id breaks the tie.
            steps = np.concatenate(([0], (rows[1:] != rows[:-1]).any(axis=1).cumsum()))
            scores[order] = steps
        return scores

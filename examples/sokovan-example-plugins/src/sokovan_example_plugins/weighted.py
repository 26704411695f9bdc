"""A selector in the vector form: one score per candidate, computed on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.engine.workspace import ONE, Ints, Workspace
from sokovan.scheduling.selectors.base import (
    AgentSelection,
    AgentSelectionCriteria,
    AgentSelector,
    Candidates,
    ResourceRequirements,
    occupancy_of,
)
from sokovan.scheduling.selectors.exceptions import NoAvailableAgentError


class WeightedSelector(AgentSelector):
    """Scores agents by a weighted sum of utilisation, image affinity and locality.

    Each of the three is an integer from 0 to ONE, multiplied by an integer weight:
    integers compare equal on every machine, floats may not. For other weights
    subclass it, set them, and register the subclass under its own name.
    """

    name = "weighted"
    utilisation_weight: ClassVar[int] = 4
    affinity_weight: ClassVar[int] = 3
    locality_weight: ClassVar[int] = 3

    def __init__(self) -> None:
        self._workspace: Workspace | None = None

    def static_rank(self, workspace: Workspace) -> None:
        """Keep the workspace, which has the labels and images; there is no keyed form."""
        self._workspace = workspace

    def score(self, candidates: Candidates) -> Ints | None:
        """The weighted sum for every candidate; the engine chooses the highest."""
        workspace = self._workspace
        if workspace is None:
            return None
        rows = np.array([workspace.position[agent_id] for agent_id in candidates.ids], np.int64)
        image = candidates.requirements.image
        warm = np.array([image in workspace.agents[row].cached_images for row in rows], np.int64)
        near = _nearness(workspace, rows, candidates.last_rank - 1)
        return np.asarray(self._sum(candidates.occupancy, warm * ONE, near), np.int64)

    def select(
        self, requirements: ResourceRequirements, agents: Sequence[AgentInfo], criteria: AgentSelectionCriteria
    ) -> AgentSelection:
        """The same for agents as objects, without a workspace; near means the same agent."""
        if not agents:
            raise NoAvailableAgentError("there is no agent")

        def rank(agent: AgentInfo) -> tuple[int, str]:
            warm = ONE * (requirements.image in agent.cached_images)
            near = ONE * (agent.agent_id == criteria.last_agent)
            return -int(self._sum(occupancy_of(agent), warm, near)), agent.agent_id

        return AgentSelection(min(agents, key=rank).agent_id)

    def _sum(self, used: Ints | int, warm: Ints | int, near: Ints | int) -> Ints | int:
        return self.utilisation_weight * used + self.affinity_weight * warm + self.locality_weight * near


def _nearness(workspace: Workspace, rows: Ints, last_rank: int) -> Ints:
    """ONE for the previously chosen agent, less for each tier in between."""
    near = np.zeros(len(rows), np.int64)
    found = np.flatnonzero(workspace.id_rank == last_rank)
    if not len(found):
        return near
    last, tree = int(found[0]), workspace.tree
    for name in reversed(list(tree.ancestors(workspace.ids[last]))):
        low, high = tree.span(name)
        near[(rows >= low) & (rows < high)] = ONE // (tree.tier(name) + 1)
    near[rows == last] = ONE
    return near

"""Scores all candidates at once."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload


class TightFitPlugin(SchedulingPlugin):
    """Prefers the agent with the least remaining capacity, so that large gaps stay large."""

    name = "tight-fit"

    def batch_agent_order(self, kernel: KernelWorkload, agents: Sequence[AgentInfo]) -> Sequence[int]:
        """The rank of each agent by remaining capacity; one score per agent."""
        left = [_left(kernel, agent) for agent in agents]
        ranks = {amount: rank for rank, amount in enumerate(sorted(set(left), reverse=True))}
        return [ranks[amount] for amount in left]


def _left(kernel: KernelWorkload, agent: AgentInfo) -> int:
    """The remainder of the requested slots, in thousandths of the agent."""
    return sum(
        1000 * (agent.available_slots[slot] - agent.occupied_slots[slot] - requested) // agent.available_slots[slot]
        for slot, requested in kernel.slots.items()
    )

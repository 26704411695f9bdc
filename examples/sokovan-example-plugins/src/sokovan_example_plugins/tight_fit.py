"""A score for all candidates at once, where they are seen side by side."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload


class TightFitPlugin(SchedulingPlugin):
    """The agent on which the kernel leaves least behind wins, so that large gaps stay large."""

    name = "tight-fit"

    def batch_agent_order(self, kernel: KernelWorkload, agents: Sequence[AgentInfo]) -> Sequence[int]:
        """The place of each agent when all are sorted by what would be left; one answer per agent."""
        left = [_left(kernel, agent) for agent in agents]
        places = {amount: place for place, amount in enumerate(sorted(set(left), reverse=True))}
        return [places[amount] for amount in left]


def _left(kernel: KernelWorkload, agent: AgentInfo) -> int:
    """What would be left of the slots that the kernel asks for, in thousandths of the agent."""
    return sum(
        1000 * (agent.available_slots[slot] - agent.occupied_slots[slot] - asked) // agent.available_slots[slot]
        for slot, asked in kernel.slots.items()
    )

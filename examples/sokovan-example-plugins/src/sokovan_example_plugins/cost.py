"""A score for one candidate at a time, brought to a common scale afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "price"


class CostPlugin(SchedulingPlugin):
    """Cheap agents first, by their label `price`, a whole number in any unit."""

    name = "cost"
    scale: ClassVar[int] = 100

    def agent_order_map(self, kernel: KernelWorkload, agent: AgentInfo) -> int | None:
        """The price as it is written; None where there is none, which counts as 0 points."""
        del kernel
        price = agent.labels.get(LABEL, "")
        return int(price) if price.isdecimal() else None

    def agent_order_reduce(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> Mapping[str, int]:
        """Prices turned into points: the cheapest gets 100, the dearest 1.

        Several plugins' points are added up, so each brings its own to one scale.
        """
        del kernel
        if not scores:
            return scores
        low, high = min(scores.values()), max(scores.values())
        spread = max(1, high - low)
        return {agent: self.scale - (self.scale - 1) * (price - low) // spread for agent, price in scores.items()}

"""Scores one candidate at a time and normalizes the scores afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "price"


class CostPlugin(SchedulingPlugin):
    """Prefers cheap agents, by their label `price`, an integer in any unit."""

    name = "cost"
    scale: ClassVar[int] = 100

    def agent_order_map(self, kernel: KernelWorkload, agent: AgentInfo) -> int | None:
        """The price; None if the agent has none, which counts as 0 points."""
        del kernel
        price = agent.labels.get(LABEL, "")
        return int(price) if price.isdecimal() else None

    def agent_order_reduce(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> Mapping[str, int]:
        """Convert prices to points: 100 for the cheapest, 1 for the most expensive.

        Points of several plugins are added up, so each plugin normalizes its own.
        """
        del kernel
        if not scores:
            return scores
        low, high = min(scores.values()), max(scores.values())
        spread = max(1, high - low)
        return {agent: self.scale - (self.scale - 1) * (price - low) // spread for agent, price in scores.items()}

"""Overrides the scores of agents."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "last-agent"


class StickyPlugin(SchedulingPlugin):
    """Returns a kernel to the agent in its label `last-agent`, which has its files."""

    name = "sticky"

    def best_agent(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> str | None:
        """The previous agent if it is a candidate; None leaves the choice to the scores."""
        before = kernel.labels.get(LABEL)
        return before if before in scores else None

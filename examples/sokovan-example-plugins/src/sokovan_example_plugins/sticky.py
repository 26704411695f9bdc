"""The last word on the agent, whatever the scores."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "last-agent"


class StickyPlugin(SchedulingPlugin):
    """A kernel goes back to the agent that its label `last-agent` names, where its files are."""

    name = "sticky"

    def best_agent(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> str | None:
        """The agent it had before, if that is a candidate; None leaves it to the scores."""
        before = kernel.labels.get(LABEL)
        return before if before in scores else None

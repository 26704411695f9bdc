"""What all agents have together, for the words of verdicts."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.slot_notation import format_amount
from sokovan.scheduling.engine.usage.queue_usage import QueueRefusal
from sokovan.scheduling.engine.workspace import Workspace

_WORDS = {
    AgentStatus.SUSPECT: "not reachable",
    AgentStatus.LOST: "not reachable",
    AgentStatus.DRAINING: "being drained",
    AgentStatus.TERMINATED: "gone",
}


class ClusterTotals:
    """Figures of the whole, as they are at the end of a cycle."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def is_all_of_it(self, refusal: QueueRefusal) -> bool:
        """Whether a queue may have everything there is of the slot it was refused."""
        return refusal.limit >= self._total[self._workspace.column[refusal.slot]]

    def shortage(self, refusal: QueueRefusal) -> str:
        """How much is in use, where a queue is refused only because there is no more."""
        free, total = self._free_and_total(refusal.slot)
        used, most, asked = (format_amount(refusal.slot, n) for n in (total - free, total, refusal.wanted))
        what = "too much of what the machines have is in use" if free else "all that the machines have is in use"
        return f"{what}: {used} of {most} {refusal.slot}; it asks for {asked}"

    def free(self, slot: str) -> str:
        """How much of a slot is free now, of how much."""
        free, total = (format_amount(slot, n) for n in self._free_and_total(slot))
        return f"free now: {free} of {total} {slot}"

    @cached_property
    def away(self) -> str:
        """How many agents take no work, and why; empty if all do."""
        agents = self._workspace.agents
        counts = Counter(_WORDS[agent.status] for agent in agents if not agent.schedulable)
        told = [f"{count} of {len(agents)} agents are {word}" for word, count in sorted(counts.items(), reverse=True)]
        return ", ".join(told)

    @cached_property
    def answers(self) -> bool:
        """Whether every agent can be reached, and those that take no work were told so."""
        return "reachable" not in self.away

    @cached_property
    def _total(self) -> list[int]:
        return self._workspace.total()

    def _free_and_total(self, slot: str) -> tuple[int, int]:
        workspace, column = self._workspace, self._workspace.column[slot]
        free = max(0, int(workspace.idle[workspace.alive, column].sum()))
        return free, max(free, self._total[column])

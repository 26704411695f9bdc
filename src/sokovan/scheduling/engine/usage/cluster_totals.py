"""ClusterTotals: sums over all agents, for the text of verdicts.

Takes the workspace at the end of a cycle. Gives sentences about used and free slots
and about agents that accept no work.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.lifecycle.agent import SCHEDULABLE, AgentStatus
from sokovan.domain.slot_notation import format_amount
from sokovan.scheduling.engine.usage.queue_usage import QueueRefusal
from sokovan.scheduling.engine.workspace import Workspace

_STATUS_TEXT = {
    AgentStatus.ALIVE: "failing",
    AgentStatus.SUSPECT: "not reachable",
    AgentStatus.LOST: "not reachable",
    AgentStatus.DRAINING: "being drained",
    AgentStatus.TERMINATED: "gone",
}


class ClusterTotals:
    """Totals of the cluster at the end of a cycle."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def limit_is_total(self, refusal: QueueRefusal) -> bool:
        """Whether the limit that refused a session is all that the cluster has."""
        return refusal.limit >= self._total[self._workspace.column[refusal.slot]]

    def shortage(self, refusal: QueueRefusal) -> str:
        """The usage of a slot whose limit is the whole cluster."""
        free, total = self._free_and_total(refusal.slot)
        used, most, request = (format_amount(refusal.slot, n) for n in (total - free, total, refusal.request))
        return f"insufficient resources: {used} of {most} {refusal.slot} are in use; the session requests {request}"

    def free(self, slot: str) -> str:
        """How much of a slot is free now, of how much."""
        free, total = (format_amount(slot, n) for n in self._free_and_total(slot))
        return f"free now: {free} of {total} {slot}"

    @cached_property
    def unavailable(self) -> str:
        """How many agents accept no work, and why; empty if all do."""
        agents = self._workspace.agents
        counts = Counter(_state_text(agent) for agent in agents if not agent.schedulable)
        for text, count in counts.items():
            if count == len(agents):
                return f"all {count} agents are {text}" if count > 1 else f"its only agent is {text}"
        parts = [f"{count} of {len(agents)} agents are {text}" for text, count in sorted(counts.items(), reverse=True)]
        return ", ".join(parts)

    @cached_property
    def faults(self) -> str:
        """The first device that has a fault, and how many more have; empty if none."""
        found = [(agent.agent_id, *fault) for agent in self._workspace.agents for fault in agent.health.faults]
        if not found:
            return ""
        agent, device, fault = found[0]
        more = f" ({len(found) - 1} more are)" if len(found) > 1 else ""
        return f"device {device} of {agent} is out of service: {fault}{more}"

    @cached_property
    def _total(self) -> list[int]:
        return self._workspace.total()

    def _free_and_total(self, slot: str) -> tuple[int, int]:
        workspace, column = self._workspace, self._workspace.column[slot]
        free = max(0, int(workspace.idle[workspace.alive, column].sum()))
        return free, max(free, self._total[column])


def _state_text(agent: AgentInfo) -> str:
    """Why an agent accepts no work."""
    if agent.status in SCHEDULABLE and not agent.approved:
        return "not approved yet (sokovan agent approve)"
    return _STATUS_TEXT[agent.status]

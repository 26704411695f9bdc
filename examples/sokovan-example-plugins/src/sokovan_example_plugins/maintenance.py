"""A predicate: whether one kernel may go to one agent."""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "maintenance"


class MaintenancePlugin(SchedulingPlugin):
    """Agents labelled `maintenance=true` take only kernels that require that label.

    Unlike draining, this lets a technician place a test kernel on the agent.
    """

    name = "maintenance"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        """Whether the agent is in ordinary use, or the kernel is meant for it."""
        return agent.labels.get(LABEL) != "true" or kernel.require.get(LABEL) == "true"

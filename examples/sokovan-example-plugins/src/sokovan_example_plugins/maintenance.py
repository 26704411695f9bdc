"""A predicate: whether one kernel may be placed on one agent."""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload

LABEL = "maintenance"


class MaintenancePlugin(SchedulingPlugin):
    """Reserves agents labelled `maintenance=true` for kernels that require that label.

    Unlike draining, this lets a technician place a test kernel on the agent.
    """

    name = "maintenance"

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        """Whether the agent is not under maintenance, or the kernel requires the label."""
        return agent.labels.get(LABEL) != "true" or kernel.require.get(LABEL) == "true"

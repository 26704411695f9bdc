"""The order in which the kernels and kernel groups of a session are placed."""

from __future__ import annotations

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload

LEADER = "leader"


class LeaderFirstPlugin(SchedulingPlugin):
    """Places the leader before its workers, so that the workers never start without it."""

    name = "leader-first"

    def kernel_order(self, kernel: KernelWorkload) -> tuple[int, ...]:
        """Kernels of the group `leader` first, regardless of their size."""
        return (int(kernel.group != LEADER),)

    def group_order(self, session: SessionWorkload, group: str) -> tuple[int, ...]:
        """The kernel group of a partition named `leader` first."""
        del session
        return (int(group != LEADER),)

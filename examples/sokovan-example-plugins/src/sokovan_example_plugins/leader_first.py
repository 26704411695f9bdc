"""In which order the kernels and the kernel groups of a session are placed."""

from __future__ import annotations

from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload

LEADER = "leader"


class LeaderFirstPlugin(SchedulingPlugin):
    """The leader is placed before its workers, so that it never goes without a place."""

    name = "leader-first"

    def kernel_order(self, kernel: KernelWorkload) -> tuple[int, ...]:
        """Kernels of the group `leader` first, whatever their size."""
        return (int(kernel.group != LEADER),)

    def group_order(self, session: SessionWorkload, group: str) -> tuple[int, ...]:
        """The kernel group of a partition that is called `leader` first."""
        del session
        return (int(group != LEADER),)

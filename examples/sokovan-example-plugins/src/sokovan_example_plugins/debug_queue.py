"""Admission to a queue: of whole sessions, and of one more kernel at a time."""

from __future__ import annotations

from typing import ClassVar

from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload

ACCELERATOR = "cuda.device"


class DebugQueuePlugin(SchedulingPlugin):
    """Limits the queue `debug` to sessions of one kernel and a few accelerators in total."""

    name = "debug-queue"
    queue: ClassVar[str] = "debug"
    accelerators_max: ClassVar[int] = 2

    def session_valid(self, session: SessionWorkload) -> str | None:
        """A reason for the user, which ends the session's turn in this cycle, or None."""
        if session.queue == self.queue and len(session.kernels) > 1:
            return f"a session in queue {self.queue} has one kernel, this one has {len(session.kernels)}"
        return None

    def allocatable(self, queue: QueueView, kernel: KernelWorkload) -> bool:
        """Whether the queue may take the kernel in addition to its current usage."""
        if queue.name != self.queue:
            return True
        return queue.allocated.get(ACCELERATOR, 0) + kernel.slots[ACCELERATOR] <= self.accelerators_max

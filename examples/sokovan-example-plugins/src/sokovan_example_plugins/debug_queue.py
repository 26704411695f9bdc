"""What a queue lets in: whole sessions, and one more kernel at a time."""

from __future__ import annotations

from typing import ClassVar

from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload

ACCELERATOR = "cuda.device"


class DebugQueuePlugin(SchedulingPlugin):
    """The queue `debug` is for short looks: one kernel each, few accelerators in all."""

    name = "debug-queue"
    queue: ClassVar[str] = "debug"
    accelerators_max: ClassVar[int] = 2

    def session_valid(self, session: SessionWorkload) -> str | None:
        """A sentence for the user, or None; the session is not looked at any further."""
        if session.queue == self.queue and len(session.kernels) > 1:
            return f"a session in queue {self.queue} has one kernel, this one has {len(session.kernels)}"
        return None

    def allocatable(self, queue: QueueView, kernel: KernelWorkload) -> bool:
        """Whether the queue may take the kernel on top of what it uses by now."""
        if queue.name != self.queue:
            return True
        return queue.allocated.get(ACCELERATOR, 0) + kernel.slots[ACCELERATOR] <= self.accelerators_max

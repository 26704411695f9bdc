"""Which queue and which session goes first, and when a queue has had enough."""

from __future__ import annotations

from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload

ACCELERATOR = "cuda.device"


class FairnessPlugin(SchedulingPlugin):
    """Accelerators are what is scarce: share them, let small work pass, curb scavengers."""

    name = "fairness"

    def queue_order(self, queue: QueueView) -> tuple[int, ...]:
        """The queue with the fewest accelerators for its weight goes first.

        Asked again after each placement, so queues take turns. Answers of equal
        length for every queue, or shares would be compared with keys.
        """
        return (queue.allocated.get(ACCELERATOR, 0) * 1000 // queue.weight,)

    def session_order(self, session: SessionWorkload) -> tuple[int, ...]:
        """Sessions with fewer kernels go first."""
        return (len(session.kernels),)

    def overused(self, queue: QueueView) -> bool:
        """A queue of negative priority stops at half of what it deserves of any slot."""
        if queue.priority >= 0:
            return False
        return any(2 * used >= queue.deserved[slot] > 0 for slot, used in queue.allocated.items() if used)

"""The order of queues and sessions, and the point at which a queue is overused."""

from __future__ import annotations

from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload

ACCELERATOR = "cuda.device"


class FairnessPlugin(SchedulingPlugin):
    """Shares accelerators by weight, prefers small sessions, limits low-priority queues."""

    name = "fairness"

    def queue_order(self, queue: QueueView) -> tuple[int, ...]:
        """The queue with the fewest accelerators for its weight goes first.

        Called again after each placement, so queues alternate. Every result must have
        the same length.
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

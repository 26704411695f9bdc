"""Which queues reclaim, from which kernels, and which queue gives first."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.extensions import EvictableKernel, QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload


class GiversPlugin(SchedulingPlugin):
    """Low queues reclaim nothing, labelled kernels are kept, and the queue with the highest share gives first."""

    name = "givers"

    def preemptive(self, queue: QueueView, session: SessionWorkload) -> bool:
        """A queue of negative priority waits for what is free."""
        del session
        return queue.priority >= 0

    def reclaimable(self, taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        """Kernels without the label `keep`."""
        del taker
        return [victim for victim in victims if victim.kernel.labels.get("keep") != "true"]

    def victim_queue_order(self, taker: QueueView, giver: QueueView) -> tuple[int, ...]:
        """The queue that uses most of what it deserves comes first.

        Every result must have the same length.
        """
        del taker
        return (-giver.share,)

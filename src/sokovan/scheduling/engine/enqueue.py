"""The action *enqueue*: admits sessions within the capability of their queues.

Takes pending sessions. Gives a PendingReason to every one that is not admitted.
Sessions are checked by priority and rank. One is admitted if its minimum, the usage
of its queue and the sessions admitted before it stay within the capability of the
queue and of every queue above it. A refused session does not block the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueRefusal
from sokovan.scheduling.trace import Code


class Enqueue:
    """Admits sessions as far as capability allows."""

    def __init__(self, slots: tuple[str, ...]) -> None:
        self._slots = slots
        self._admitted: dict[str, list[int]] = {}

    def run(self, sessions: Iterable[PendingSession]) -> None:
        """Check every session that has no running kernel; the others are admitted already."""
        for pending in sorted(sessions, key=lambda pending: (-pending.session.priority, pending.rank)):
            if pending.reason is not None or pending.agents:
                continue
            request = self._minimum(pending)
            refusal = self._refusal(pending.node, request)
            if refusal is None:
                self._admit(pending.node, request)
            else:
                pending.reason = PendingReason(Code.QUEUE_LIMIT, f"not enqueued: {refusal.sentence()}")

    def _minimum(self, pending: PendingSession) -> list[int]:
        row, need = [0] * len(self._slots), max(0, pending.minimum - pending.have)
        for batch in pending.batches:
            count = min(need, len(batch.kernels))
            need -= count
            for column, amount in batch.shape.slot_pairs:
                row[column] += amount * count
        return row

    def _refusal(self, node: QueueNode, request: list[int]) -> QueueRefusal | None:
        for queue in node.limiting_queues():
            admitted = self._admitted.get(queue.name, [0] * len(self._slots))
            for column, amount in enumerate(request):
                used = queue.allocated[column] + admitted[column]
                if amount and used + amount > queue.limit[column]:
                    slot, limit = self._slots[column], queue.limit[column]
                    return QueueRefusal(Code.QUEUE_LIMIT, queue.name, slot, amount, used, limit)
        return None

    def _admit(self, node: QueueNode, request: list[int]) -> None:
        for queue in node.limiting_queues():
            row = self._admitted.setdefault(queue.name, [0] * len(self._slots))
            for column, amount in enumerate(request):
                row[column] += amount

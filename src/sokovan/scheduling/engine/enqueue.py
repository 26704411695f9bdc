"""The action *enqueue*: who may be considered, as far as the limits of queues go.

Sessions are looked at in the order of their queue. One is let in if its minimum,
what its queue uses and what was let in before it stay within the capability of the
queue and of every queue above it. One that is kept out does not keep out the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.scheduling.engine.pending_session import Failure, PendingSession
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueRefusal, QueueUsage
from sokovan.scheduling.trace import Code


class Enqueue:
    """Lets sessions in as far as capability allows."""

    def __init__(self, book: QueueUsage, slots: tuple[str, ...]) -> None:
        self._book, self._slots = book, slots
        self._let_in: dict[str, list[int]] = {}

    def run(self, jobs: Iterable[PendingSession]) -> None:
        """Look at every session that has not begun; the others are in already."""
        for job in sorted(jobs, key=lambda job: (-job.session.priority, job.rank)):
            if job.failure is not None or job.agents:
                continue
            asked = self._minimum(job)
            refusal = self._refusal(job.node, asked)
            if refusal is None:
                self._count(job.node, asked)
            else:
                job.failure = Failure(Code.QUEUE_LIMIT, f"not let in: {refusal.sentence()}")

    def _minimum(self, job: PendingSession) -> list[int]:
        row, need = [0] * len(self._slots), max(0, job.minimum - job.have)
        for run in job.runs:
            count = min(need, len(run.kernels))
            need -= count
            for column, amount in run.shape.slot_pairs:
                row[column] += amount * count
        return row

    def _refusal(self, node: QueueNode, asked: list[int]) -> QueueRefusal | None:
        for above in node.chain():
            waiting = self._let_in.get(above.name, [0] * len(self._slots))
            for column, amount in enumerate(asked):
                used = above.allocated[column] + waiting[column]
                if amount and used + amount > above.limit[column]:
                    return QueueRefusal(
                        Code.QUEUE_LIMIT, above.name, self._slots[column], amount, used, above.limit[column]
                    )
        return None

    def _count(self, node: QueueNode, asked: list[int]) -> None:
        for above in node.chain():
            row = self._let_in.setdefault(above.name, [0] * len(self._slots))
            for column, amount in enumerate(asked):
                row[column] += amount

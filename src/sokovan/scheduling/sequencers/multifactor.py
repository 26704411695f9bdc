"""Multifactor: a sum of age, past usage, size and queue priority.

The largest sum goes first. Each factor is a fixed-point number from 0 to ONE:

    age          the oldest waiting session has 1, the youngest 0
    fair share   the mean of 2^-(usage/share) over the user, the queue and the queues above it
    size         the largest part of any slot of the scaling group that its minimum asks for
    queue        the highest priority of a queue has 1, the lowest 0

`usage` is the part of all past usage of the same kind, `share` the part of all weights. Past
usage orders sessions; it changes neither what a queue deserves nor what it is guaranteed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.slots import total
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.sequencers.past_shares import PastShares, queue_named
from sokovan.scheduling.snapshot import SessionWorkload

AGE_WEIGHT = 1_000
FAIR_SHARE_WEIGHT = 10_000
SIZE_WEIGHT = 500
QUEUE_WEIGHT = 1_000


class MultifactorSequencer(WorkloadSequencer):
    """The largest weighted sum of factors first, then oldest first."""

    name = "multifactor"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """By the sum of the factors."""
        ordered = by_age(sessions)
        snapshot, last = context.snapshot, max(1, len(ordered) - 1)
        queues = {str(queue.name): queue for queue in snapshot.queues}
        shares = PastShares(snapshot, queues, {session.owner.user for session in sessions})
        priorities = {queue_named(queues, session.queue).priority for session in sessions}
        lowest, spread = min(priorities, default=0), max(1, max(priorities, default=0) - min(priorities, default=0))

        def score(item: tuple[int, SessionWorkload]) -> int:
            rank, session = item
            above = queue_named(queues, session.queue).priority - lowest
            return -(
                AGE_WEIGHT * ((last - rank) * ONE // last)
                + FAIR_SHARE_WEIGHT * shares.factor(session.owner.user, str(session.queue))
                + SIZE_WEIGHT * _size(session, context)
                + QUEUE_WEIGHT * (above * ONE // spread)
            )

        return [session for _, session in sorted(enumerate(ordered), key=score)]


def _size(session: SessionWorkload, context: SequencingContext) -> int:
    waiting = [kernel.slots for kernel in session.kernels if kernel.agent is None][: session.gang_size]
    asked, capacity = total(waiting), context.capacity
    parts = [min(ONE, amount * ONE // capacity[slot]) for slot, amount in asked.items() if capacity[slot]]
    return max(parts, default=0)

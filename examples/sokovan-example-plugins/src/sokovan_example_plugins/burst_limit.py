"""Admission to a cycle: a plugin that counts what it has admitted."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import SessionWorkload


class BurstLimitPlugin(SchedulingPlugin):
    """Admits a few sessions of each user in a cycle, and none to a queue that has twice its share."""

    name = "burst-limit"
    sessions_max: ClassVar[int] = 2

    def __init__(self) -> None:
        # A new instance is created for each cycle.
        self._admitted: Counter[str] = Counter()

    def session_enqueueable(self, session: SessionWorkload, queue: QueueView) -> str | None:
        """A reason for the user, or None; sessions admitted before count as allocated to the queue."""
        for slot, deserved in queue.deserved.items():
            if deserved and queue.allocated[slot] >= 2 * deserved:
                return f"queue {queue.name} has sessions for twice the {slot} that it deserves"
        if self._admitted[session.owner.user] >= self.sessions_max:
            return f"{self.sessions_max} sessions of {session.owner.user} start in a cycle"
        return None

    def session_enqueued(self, session: SessionWorkload, queue: QueueView) -> None:
        """Count the session; validators may still refuse it, or it may find no agents."""
        del queue
        self._admitted[session.owner.user] += 1

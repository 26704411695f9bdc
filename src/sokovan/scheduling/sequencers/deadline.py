"""Deadlines: the session whose latest start is nearest goes first.

The latest start is the deadline less the time limit. It counts if it comes within an hour;
before that, and once it has passed, age decides. A deadline gives order inside
a priority, never the right to evict.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload, latest_start

WITHIN_MS = 3_600_000


class DeadlineSequencer(WorkloadSequencer):
    """The nearest latest start first, then oldest first."""

    name = "deadline"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Sessions that must start within the hour, then all others by age."""
        now_ms = context.snapshot.now_ms

        def urgency(session: SessionWorkload) -> int:
            latest = latest_start(session)
            if latest is None or not now_ms <= latest <= now_ms + WITHIN_MS:
                return WITHIN_MS + 1
            return latest - now_ms

        return sorted(by_age(sessions), key=urgency)

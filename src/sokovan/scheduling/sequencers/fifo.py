"""First in, first out."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload


class FIFOSequencer(WorkloadSequencer):
    """The session that was submitted first goes first."""

    name = "fifo"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Oldest first."""
        del context
        return by_age(sessions)

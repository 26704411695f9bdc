"""A sequencer: which of the waiting sessions goes first."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload


class SmallestFirstSequencer(WorkloadSequencer):
    """Sessions with fewer waiting kernels go first, the older first among equals.

    Priority bands stay above every sequencer: it orders sessions of equal priority.
    """

    name = "smallest-first"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """All sessions, none lost and none doubled; the sort is stable, so age decides ties."""
        del context
        return sorted(by_age(sessions), key=lambda session: sum(kernel.agent is None for kernel in session.kernels))

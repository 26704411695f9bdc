"""A sequencer: the order of pending sessions."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload


class SmallestFirstSequencer(WorkloadSequencer):
    """Orders sessions by their number of pending kernels, then by age.

    A sequencer orders sessions of equal priority; priority bands come first.
    """

    name = "smallest-first"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """All sessions exactly once; the sort is stable, so age breaks ties."""
        del context
        return sorted(by_age(sessions), key=lambda session: sum(kernel.agent is None for kernel in session.kernels))

"""Last in, first out."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer
from sokovan.scheduling.snapshot import SessionWorkload


class LIFOSequencer(WorkloadSequencer):
    """The session that was submitted last goes first."""

    name = "lifo"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Youngest first; sessions of the same time by id."""
        del context
        return sorted(sessions, key=lambda session: (-session.submitted, session.session_id))

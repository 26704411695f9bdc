"""Dominant resource fairness: the smallest dominant share goes first.

Progressive: the share changes with every placement, so that two users without usage
alternate instead of one being served completely before the other. Counts what a user
has in the scaling group, relative to what the scaling group has.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload


class DRFSequencer(WorkloadSequencer):
    """One fairness key per user, ordered by dominant share."""

    name = "drf"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Oldest first within a user."""
        del context
        return by_age(sessions)

    def fairness_key(self, session: SessionWorkload) -> str:
        """The user."""
        return session.owner.user

    def share(self, session: SessionWorkload, context: SequencingContext) -> int:
        """The user's dominant share; a slot that the group lacks does not count."""
        used, capacity = context.ledger.account_here(session.owner.user).used, context.capacity
        shares = [amount * ONE // capacity[slot] for slot, amount in used.items() if capacity[slot]]
        return max(shares, default=0)

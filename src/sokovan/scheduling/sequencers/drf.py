"""Dominant resource fairness: the smallest dominant share goes first.

Progressive: the share changes with every placement, so that two users without usage
alternate instead of one being served completely before the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.owners.policy import Scope
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
        """The user's dominant share; a slot that the cluster lacks counts as fully used."""
        used = context.ledger.account(Scope.USER, session.owner.user).used
        capacity = context.capacity
        share = 0
        for slot, amount in used.items():
            if amount:
                share = max(share, amount * ONE // capacity[slot] if capacity[slot] else ONE)
        return share

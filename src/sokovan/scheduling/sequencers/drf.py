"""Dominant resource fairness: the smallest dominant share goes first.

Progressive: the share moves with every placement, so that two users who both have
nothing take turns instead of one going all the way before the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.policy import Scope
from sokovan.scheduling.engine.workspace import ONE
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer, by_age
from sokovan.scheduling.snapshot import SessionWorkload


class DRFSequencer(WorkloadSequencer):
    """One lane per user; lanes stand by dominant share."""

    name = "drf"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Inside a lane, oldest first."""
        del context
        return by_age(sessions)

    def lane(self, session: SessionWorkload) -> str:
        """The user."""
        return session.owner.user

    def standing(self, session: SessionWorkload, context: SequencingContext) -> int:
        """The user's dominant share; a slot the cluster lacks counts as fully taken."""
        used = context.ledger.account(Scope.USER, session.owner.user).used
        capacity = context.capacity
        share = 0
        for slot, amount in used.items():
            if amount:
                share = max(share, amount * ONE // capacity[slot] if capacity[slot] else ONE)
        return share

"""Fair share over time: the group, then the user, with the least usage goes first.

The order of sessions of equal priority in a queue is

    (usage of the group / weight of the group,
     usage of the user / weight of the user, age)

where usage is the sum over slots of `slot weight * decayed usage` in the scaling group,
including what runs now (see `domain.owners.past_usage`). The group comes first, as in
Slurm's fair tree: a group without usage is served before a group with usage, whichever
users are in it. Owners without usage come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.owners.past_usage import UsageScope, slot_weight, value_after
from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot

Shares = dict[tuple[UsageScope, str], int]


class FairShareSequencer(WorkloadSequencer):
    """Decayed usage by weight, least first; owners without usage come first."""

    name = "fair-share"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Least used group, then least used user, then oldest."""
        used = usage_by_weight(context.snapshot)

        def key(session: SessionWorkload) -> tuple[int, int, int, str]:
            group = used.get((UsageScope.GROUP, session.owner.group), 0)
            user = used.get((UsageScope.USER, session.owner.user), 0)
            return group, user, session.submitted, session.session_id

        return sorted(sessions, key=key)


def usage_by_weight(snapshot: SystemSnapshot) -> Shares:
    """Decayed usage per unit of weight, with 96 binary places, by scope and name."""
    policy, totals = snapshot.fair_share, Shares()
    half_life_ms = policy.half_life_s * 1000
    for record in snapshot.history:
        value = value_after(
            record.amount, record.held, record.slot, age_ms=snapshot.now_ms - record.at_ms, half_life_ms=half_life_ms
        )
        # A record without a slot is weighted already.
        weighted = value * slot_weight(record.slot, policy.slot_weights) if record.slot else value
        key = (record.scope, record.name)
        totals[key] = totals.get(key, 0) + weighted
    return {(scope, name): amount // policy.weight(scope, name) for (scope, name), amount in totals.items()}

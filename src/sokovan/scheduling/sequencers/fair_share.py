"""Fair share over time: the user with the least past usage per weight goes first.

Past usage decays with a half-life. The decay is computed on whole numbers (halvings
and square roots of a half), so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from sokovan.scheduling.sequencers.base import SequencingContext, WorkloadSequencer
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot

_BITS = 32
_ROOTS = 16


class FairShareSequencer(WorkloadSequencer):
    """Decayed usage by weight, least first; users without history come first."""

    name = "fair-share"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Least used first, then oldest."""
        used = decayed_usage(context.snapshot)
        return sorted(sessions, key=lambda s: (used.get(s.owner.user, 0), s.submitted, s.session_id))


def decayed_usage(snapshot: SystemSnapshot) -> dict[str, int]:
    """Each user's decayed past usage per unit of weight, in fixed point."""
    policy, totals = snapshot.fair_share, dict[str, int]()
    for record in snapshot.history:
        age_ms = max(0, snapshot.now_ms - record.at_ms)
        decayed = record.amount * decay(age_ms, policy.half_life_s * 1000)
        totals[record.user] = totals.get(record.user, 0) + decayed
    return {user: amount // policy.weights.get(user, 1) for user, amount in totals.items()}


def decay(age: int, half_life: int) -> int:
    """2 to the power of -age/half_life, in fixed point with 32 bits.

    >>> decay(0, 10) == 1 << 32, decay(10, 10) == 1 << 31, decay(20, 10) == 1 << 30
    (True, True, True)
    """
    halvings, rest = divmod(age, half_life)
    if halvings > _BITS:
        return 0
    factor = 1 << _BITS
    root = 1 << (_BITS - 1)
    for bit in range(1, _ROOTS + 1):
        root = isqrt(root << _BITS)
        if (rest << bit) // half_life & 1:
            factor = (factor * root) >> _BITS
    return factor >> halvings

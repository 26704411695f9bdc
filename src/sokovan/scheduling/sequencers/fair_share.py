"""Fair share over time: who used least, for what they are entitled to, goes first.

Past usage fades with a half-life. The decay is computed on whole numbers (halvings
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
    """Faded usage by weight, least first; who has no history goes first of all."""

    name = "fair-share"

    def sequence(self, sessions: Sequence[SessionWorkload], context: SequencingContext) -> Sequence[SessionWorkload]:
        """Least used first, then oldest."""
        used = faded_usage(context.snapshot)
        return sorted(sessions, key=lambda s: (used.get(s.owner.user, 0), s.submitted, s.session_id))


def faded_usage(snapshot: SystemSnapshot) -> dict[str, int]:
    """What is left of each user's past usage, per unit of weight, in fixed point."""
    policy, totals = snapshot.fair_share, dict[str, int]()
    for record in snapshot.history:
        age_ms = max(0, snapshot.now_ms - record.at_ms)
        faded = record.amount * decay(age_ms, policy.half_life_s * 1000)
        totals[record.user] = totals.get(record.user, 0) + faded
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

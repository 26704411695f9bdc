"""OwnerBudget: how many kernels of each user may be evicted in an hour.

Takes the evictions of the last hour, and sets of victims. Gives the users whose budget a set
exceeds. It is half of the kernels that the user runs, by default, but one session always may be, if none
was in the last hour. Takers of the same user are not limited by it, and spend nothing of it:
otherwise users could protect their sessions from others by evicting a small one themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot


class OwnerBudget:
    """The evictions of the last hour, and those of this cycle, by user."""

    def __init__(self, snapshot: SystemSnapshot, per_cent: int) -> None:
        self._snapshot, self._per_cent = snapshot, per_cent
        self._spent: Counter[str] = Counter(dict(snapshot.evicted_lately))

    def exceeded_by(
        self, taker: SessionWorkload, victims: Sequence[SessionWorkload], running: Mapping[str, int]
    ) -> set[str]:
        """The users whose budget a set of victims exceeds.

        The set is given by the session of each kernel; `running` has the kernels of each user.
        """
        sessions: dict[str, set[str]] = {}
        kernels = Counter(one.owner.user for one in victims)
        for one in victims:
            sessions.setdefault(one.owner.user, set()).add(one.session_id)
        return {
            user
            for user, own in sessions.items()
            if user != taker.owner.user
            and not (len(own) == 1 and not self._spent[user])
            and (self._spent[user] + kernels[user]) * 100 > running[user] * self._per_cent
        }

    def spend(self, taker: SessionWorkload, victims: Sequence[SessionWorkload]) -> None:
        """Count the victims of a taker, given by the session of each kernel."""
        self._spent.update(one.owner.user for one in victims if one.owner.user != taker.owner.user)

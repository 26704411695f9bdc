"""OwnerBudget: how many kernels of each user may be evicted in an hour.

Half of the kernels that the user runs, by default, but one session always may be, if none
was in the last hour. Takers of the same user are not limited by it, and spend nothing of it:
otherwise users could protect their sessions from others by evicting a small one themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sokovan.scheduling.engine.evictions.victims import VictimTable
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot


class OwnerBudget:
    """The evictions of the last hour, and those of this cycle, by user."""

    def __init__(self, snapshot: SystemSnapshot, per_cent: int) -> None:
        self._snapshot, self._per_cent = snapshot, per_cent
        self._spent: Counter[str] = Counter(dict(snapshot.evicted_lately))

    def exceeded_by(self, taker: SessionWorkload, table: VictimTable, rows: Sequence[int]) -> set[str]:
        """The users whose budget a set of victims exceeds."""
        victims: dict[str, set[str]] = {}
        kernels: Counter[str] = Counter()
        for row in rows:
            session = table.sessions[int(table.session[row])].session
            victims.setdefault(session.owner.user, set()).add(session.session_id)
            kernels[session.owner.user] += 1
        running = table.kernels_of
        return {
            user
            for user, sessions in victims.items()
            if user != taker.owner.user
            and not (len(sessions) == 1 and not self._spent[user])
            and (self._spent[user] + kernels[user]) * 100 > running[user] * self._per_cent
        }

    def spend(self, taker: SessionWorkload, table: VictimTable, rows: Sequence[int]) -> None:
        """Count the victims of a taker."""
        users = (table.sessions[int(table.session[row])].session.owner.user for row in rows)
        self._spent.update(user for user in users if user != taker.owner.user)

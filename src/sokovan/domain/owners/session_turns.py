"""New sessions that are read a part at a time, users in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.turns import Turns

# New sessions that are read in one cycle, if more have come at once: those of other users wait that long.
READ_AT_ONCE = 400


class UnreadSessions:
    """Sessions that were found, and not read yet, with their users.

    One that has not been read counts as if it came later.
    """

    def __init__(self) -> None:
        self._users: dict[SessionId, str] = {}
        # The same by user, in order: a part looks only at so many of each.
        self._of_user: dict[str, dict[SessionId, None]] = {}
        self._turns: Turns[SessionId] = Turns(user_of=self._users.__getitem__, size_of=lambda _session_id: 1)

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._users

    def add(self, users: Mapping[SessionId, str]) -> None:
        """Add new sessions, given with their users."""
        self._users.update(users)
        for session_id, user in users.items():
            self._of_user.setdefault(user, {})[session_id] = None

    def next_part(self, size: int) -> list[SessionId]:
        """The sessions to read next: of each user about as many, the oldest first."""
        chosen: list[SessionId] = []

        def take(session_id: SessionId, _limit: int) -> int:
            chosen.append(session_id)
            return 1

        waiting = [one for sessions in self._of_user.values() for one in islice(sessions, size + 1)]
        self._turns.take(waiting, budget=size, spend=take)
        return chosen

    def remove(self, session_ids: Iterable[SessionId]) -> None:
        """Remove sessions that were read."""
        for session_id in session_ids:
            user = self._users.pop(session_id, None)
            if user is not None:
                self._of_user[user].pop(session_id)
                if not self._of_user[user]:
                    del self._of_user[user]

    def clear(self) -> None:
        """Forget all sessions, and whose turn it is."""
        self._users.clear()
        self._of_user.clear()
        self._turns.clear()

"""ArrayUsage: how many sessions of each array run.

Takes the sessions of a snapshot and those that start during the cycle. Gives, per array
with a limit, how many run and how many more may start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sokovan.scheduling.snapshot import SessionWorkload


class ArrayUsage:
    """Counts the running sessions of arrays; a terminating one still runs."""

    def __init__(self, sessions: Iterable[SessionWorkload] = ()) -> None:
        self._running = Counter(one.array for one in sessions if one.array_limit is not None and _runs(one))
        self._requested: Counter[str] = Counter()

    def running(self, session: SessionWorkload) -> int:
        """How many sessions of its array run."""
        return self._running[session.array]

    def start(self, session: SessionWorkload) -> None:
        """Count a session that starts in this cycle."""
        if session.array_limit is not None:
            self._running[session.array] += 1

    def may_request(self, session: SessionWorkload) -> bool:
        """Whether its queue needs a share for it: only as many as may still start do."""
        if session.array_limit is None or _runs(session):
            return True
        self._requested[session.array] += 1
        return self._running[session.array] + self._requested[session.array] <= session.array_limit


def _runs(session: SessionWorkload) -> bool:
    return any(kernel.agent is not None for kernel in session.kernels)

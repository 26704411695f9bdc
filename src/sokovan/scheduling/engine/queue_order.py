"""Which session of a queue goes next.

Priority comes first; of equal priority a session that still lacks its minimum goes
before one that only grows; then a plugin's order and the sequencer's. Lanes (one per user under
DRF) compete by their standing, which is asked again each time: it may have moved
by a placement in another queue.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from sokovan.scheduling.engine.pending_session import PendingSession

Head = tuple[int, bool, tuple[int, ...], int]
Entry = tuple[int, bool, tuple[int, ...], int, int, str]


class SessionHeap:
    """The waiting sessions of one queue under an order that does not move."""

    def __init__(self) -> None:
        self._heap: list[tuple[Head, PendingSession]] = []

    def push(self, job: PendingSession) -> None:
        """Put a session in line (again)."""
        heappush(self._heap, (_head(job), job))

    def pop(self) -> PendingSession | None:
        """The session that goes next; None if nobody waits."""
        return heappop(self._heap)[1] if self._heap else None


class QueueOrder:
    """The waiting sessions of one queue in lanes that compete."""

    def __init__(self, lane_of: Callable[[PendingSession], str], standing: Callable[[PendingSession], int]) -> None:
        self._lane_of, self._standing = lane_of, standing
        self._lanes: dict[str, list[tuple[Head, PendingSession]]] = {}
        self._order: list[Entry] = []
        self._current: dict[str, Entry] = {}  # of a lane's entries in the heap, the one that counts

    def push(self, job: PendingSession) -> None:
        """Put a session in line (again)."""
        lane = self._lane_of(job)
        line = self._lanes.setdefault(lane, [])
        heappush(line, (_head(job), job))
        if line[0][1] is job:
            self._enter(lane)

    def pop(self) -> PendingSession | None:
        """The session that goes next; None if nobody waits."""
        moved: set[str] = set()
        while self._order:
            entry = heappop(self._order)
            lane = entry[-1]
            if self._current.get(lane) != entry:
                continue
            if lane not in moved and self._entry(lane) != entry:
                # The standing has moved since: the lane takes its new place. Once in a call, as the standing of a
                # plugin may be another one each time.
                moved.add(lane)
                self._enter(lane)
                continue
            job = heappop(self._lanes[lane])[1]
            if self._lanes[lane]:
                self._enter(lane)
            else:
                del self._current[lane]
            return job
        return None

    def _enter(self, lane: str) -> None:
        self._current[lane] = self._entry(lane)
        heappush(self._order, self._current[lane])

    def _entry(self, lane: str) -> Entry:
        (priority, grows, order, rank), job = self._lanes[lane][0]
        return (priority, grows, order, self._standing(job), rank, lane)


def _head(job: PendingSession) -> Head:
    # Ranks are unique, so that two sessions are never compared beyond them.
    return (-job.session.priority, job.grows(), job.order, job.rank)

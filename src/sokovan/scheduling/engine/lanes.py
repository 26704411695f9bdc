"""Which session of a queue goes next.

Priority comes first; of equal priority a session that still lacks its minimum goes
before one that only grows; then the sequencer's order. Lanes (one per user under
DRF) compete by their standing, which is asked again each time: it may have moved
by a placement in another queue.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from sokovan.scheduling.engine.jobs import Job

Head = tuple[int, bool, int]


class Line:
    """The waiting sessions of one queue under an order that does not move."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, bool, int, Job]] = []

    def push(self, job: Job) -> None:
        """Put a session in line (again)."""
        # Ranks are unique, so that two sessions are never compared beyond them.
        heappush(self._heap, (-job.session.priority, job.have >= job.minimum, job.rank, job))

    def pop(self) -> Job | None:
        """The session that goes next; None if nobody waits."""
        return heappop(self._heap)[3] if self._heap else None


class Lanes:
    """The waiting sessions of one queue in lanes that compete."""

    def __init__(self, lane_of: Callable[[Job], str], standing: Callable[[Job], int]) -> None:
        self._lane_of, self._standing = lane_of, standing
        self._lanes: dict[str, list[tuple[Head, Job]]] = {}
        self._order: list[tuple[int, bool, int, int, str]] = []

    def push(self, job: Job) -> None:
        """Put a session in line (again)."""
        lane = self._lane_of(job)
        line = self._lanes.setdefault(lane, [])
        head = (-job.session.priority, job.have >= job.minimum, job.rank)
        # Ranks are unique, so that two sessions are never compared beyond them.
        heappush(line, (head, job))
        if line[0][1] is job:
            heappush(self._order, self._entry(lane))

    def pop(self) -> Job | None:
        """The session that goes next; None if nobody waits."""
        order = self._order
        while order:
            entry = heappop(order)
            line = self._lanes[entry[-1]]
            if not line:
                continue
            now = self._entry(entry[-1])
            if now != entry:
                if now > entry:
                    heappush(order, now)
                continue
            job = heappop(line)[1]
            if line:
                heappush(order, self._entry(entry[-1]))
            return job
        return None

    def _entry(self, lane: str) -> tuple[int, bool, int, int, str]:
        (priority, grows, rank), job = self._lanes[lane][0]
        return (priority, grows, self._standing(job), rank, lane)

"""The order of the waiting sessions of one queue, and the turns of all queues.

Takes pending sessions (`push`). Gives the next one to try (`pop`). Priority comes
first; of equal priority a session below its minimum goes before one that only grows;
then a plugin's order and the sequencer's. With fairness keys (one per user under DRF)
the keys compete by their current share, which is computed again for each pop: a
placement in another queue may have changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from sokovan.scheduling.engine.pending_session import PendingSession
from sokovan.scheduling.engine.usage.queue_usage import QueueNode, QueueUsage

SessionKey = tuple[int, bool, tuple[int, ...], int]
HeapEntry = tuple[int, bool, tuple[int, ...], int, int, str]


class SessionHeap:
    """The waiting sessions of one queue under a fixed order."""

    def __init__(self) -> None:
        # Most sessions are pushed before the first pop, and in their order already: sorting them once
        # compares each with the next only. The heap has those that are pushed again, to grow.
        self._sorted: list[tuple[SessionKey, PendingSession]] = []
        self._heap: list[tuple[SessionKey, PendingSession]] = []
        self._popped = False

    def push(self, pending: PendingSession) -> None:
        """Add a session."""
        entry = (_session_key(pending), pending)
        if self._popped:
            heappush(self._heap, entry)
        else:
            self._sorted.append(entry)

    def pop(self) -> PendingSession | None:
        """The next session; None if there is none."""
        if not self._popped:
            self._popped = True
            self._sorted.sort()
            self._sorted.reverse()  # so that the next one is the last of the list
        if self._heap and not (self._sorted and self._sorted[-1] < self._heap[0]):
            return heappop(self._heap)[1]
        return self._sorted.pop()[1] if self._sorted else None


class QueueOrder:
    """The waiting sessions of one queue by fairness key; keys compete by share."""

    def __init__(self, key_of: Callable[[PendingSession], str], share_of: Callable[[PendingSession], int]) -> None:
        self._key_of, self._share_of = key_of, share_of
        self._sessions: dict[str, list[tuple[SessionKey, PendingSession]]] = {}
        self._heap: list[HeapEntry] = []
        self._current: dict[str, HeapEntry] = {}  # the valid entry of each key; older ones in the heap are stale

    def push(self, pending: PendingSession) -> None:
        """Add a session."""
        key = self._key_of(pending)
        sessions = self._sessions.setdefault(key, [])
        heappush(sessions, (_session_key(pending), pending))
        if sessions[0][1] is pending:
            self._push_key(key)

    def pop(self) -> PendingSession | None:
        """The next session; None if there is none."""
        moved: set[str] = set()
        while self._heap:
            entry = heappop(self._heap)
            key = entry[-1]
            if self._current.get(key) != entry:
                continue
            if key not in moved and self._entry(key) != entry:
                # The share has changed since: push the key again. Once per call, because a plugin may return
                # another share each time.
                moved.add(key)
                self._push_key(key)
                continue
            pending = heappop(self._sessions[key])[1]
            if self._sessions[key]:
                self._push_key(key)
            else:
                del self._current[key]
            return pending
        return None

    def _push_key(self, key: str) -> None:
        self._current[key] = self._entry(key)
        heappush(self._heap, self._current[key])

    def _entry(self, key: str) -> HeapEntry:
        (priority, grows, order, rank), pending = self._sessions[key][0]
        return (priority, grows, order, self._share_of(pending), rank, key)


WaitingSessions = SessionHeap | QueueOrder


def serve_by_queue(
    queue_usage: QueueUsage,
    sessions: Iterable[PendingSession],
    new_queue: Callable[[], WaitingSessions],
    serve: Callable[[QueueNode, WaitingSessions], bool],
) -> None:
    """Call `serve` with the best queue each time, until all queues are done."""
    waiting: dict[str, WaitingSessions] = {}
    nodes: dict[str, QueueNode] = {}
    for pending in sessions:
        name = pending.node.name
        queue = waiting.get(name)
        if queue is None:
            queue = waiting[name] = new_queue()
            nodes[name] = pending.node
        queue.push(pending)
    walk = queue_usage.walk(nodes.values())
    node = next(walk, None)
    while node is not None:
        try:
            node = walk.send(serve(node, waiting[node.name]))
        except StopIteration:
            return


def _session_key(pending: PendingSession) -> SessionKey:
    # Ranks are unique, so that two sessions are never compared beyond them.
    grows = pending.have >= pending.minimum and pending.grows()
    return (-pending.session.priority, grows, pending.order, pending.rank)

"""The evictions that protect queues and users for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from sokovan.adapters.sql.repositories.sessions.receipts import NO_EVICTIONS, EvictionReceipt, evictions_of
from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.ids import SessionId
from sokovan.scheduling.engine.evictions.victims import RECLAIM

HOUR_MS = 3_600_000
# The room of the evicted is not waited for any longer than this after the end of their grace period.
_OVERDUE_MS = 90_000


class _Evicted(NamedTuple):
    """A session that was evicted: whose it is, and its receipts."""

    scaling_group: str
    queue: str
    user: str
    receipts: tuple[EvictionReceipt, ...]
    ended: bool


class PastEvictions:
    """The receipts of the few sessions that were evicted.

    Those of an ended session count for an hour, as if it still waited: many end by their
    eviction, and its owner or queue gave all the same.
    """

    def __init__(self) -> None:
        self._evicted: dict[SessionId, _Evicted] = {}

    def put(self, row: Any, *, ended: bool) -> None:
        """Update a session from its row."""
        session_id = SessionId(row.session_id)
        if row.evictions == NO_EVICTIONS:
            self._evicted.pop(session_id, None)
        else:
            receipts = evictions_of(row.evictions)
            self._evicted[session_id] = _Evicted(row.scaling_group, row.queue, row.user, receipts, ended)

    def of(self, scaling_group: str, now_ms: int) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The last time each queue gave; each user's kernels that others took in an hour."""
        self._forget(now_ms)
        gave_ms: dict[str, int] = {}
        lately: Counter[str] = Counter()
        for evicted in self._evicted.values():
            if evicted.scaling_group != scaling_group:
                continue
            for one in evicted.receipts:
                if one.action == RECLAIM:
                    gave_ms[evicted.queue] = max(one.at_ms, gave_ms.get(evicted.queue, 0))
                # What a user takes from himself protects nothing from others.
                if now_ms - one.at_ms < HOUR_MS and not one.is_move and one.for_user != evicted.user:
                    lately[evicted.user] += one.kernels
        return gave_ms, dict(lately)

    def _forget(self, now_ms: int) -> None:
        """Forget sessions that have ended and were evicted more than an hour ago."""
        past = [one for one, it in self._evicted.items() if it.ended and now_ms - it.receipts[-1].at_ms >= HOUR_MS]
        for session_id in past:
            del self._evicted[session_id]


def overdue_ms(evictions: str) -> int:
    """Until when the room of ending kernels is expected.

    It follows from the stored receipts of their session. One that was not evicted is waited for however long it takes.
    """
    receipts = evictions_of(evictions)
    return receipts[-1].evict_at_ms + _OVERDUE_MS if receipts and receipts[-1].is_open else FOREVER_MS

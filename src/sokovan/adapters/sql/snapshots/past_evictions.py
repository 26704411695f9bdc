"""The evictions of live sessions, which protect queues and users for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sokovan.adapters.sql.repositories.sessions.receipts import NO_EVICTIONS, EvictionReceipt, evictions_of
from sokovan.domain.ids import SessionId
from sokovan.scheduling.engine.evictions.victims import RECLAIM
from sokovan.scheduling.snapshot import SessionWorkload

_HOUR_MS = 3_600_000


class PastEvictions:
    """The receipts of the few live sessions that were evicted."""

    def __init__(self) -> None:
        self._receipts: dict[SessionId, tuple[EvictionReceipt, ...]] = {}

    def put(self, session_id: SessionId, text: str) -> None:
        """Update a session from the stored form of its receipts."""
        if text != NO_EVICTIONS:
            self._receipts[session_id] = evictions_of(text)

    def drop(self, session_id: SessionId) -> None:
        """Remove a session."""
        self._receipts.pop(session_id, None)

    def of(
        self, sessions: Mapping[SessionId, SessionWorkload], now_ms: int
    ) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The last time each queue gave; each user's kernels evicted in an hour."""
        gave_ms: dict[str, int] = {}
        lately: Counter[str] = Counter()
        for session_id, receipts in self._receipts.items():
            session = sessions.get(session_id)
            if session is None:
                continue
            for one in receipts:
                if one.action == RECLAIM:
                    gave_ms[session.queue] = max(one.at_ms, gave_ms.get(session.queue, 0))
                if now_ms - one.at_ms < _HOUR_MS and not one.is_move:
                    lately[session.owner.user] += one.kernels
        return gave_ms, dict(lately)

"""The evictions that protect queues and users for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sokovan.adapters.sql.schema.eviction_codec import NO_EVICTIONS, EvictionReceipt, evictions_of
from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_REMOVED, RECLAIM, TakerState, recent, room_back_ms

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
    eviction, and its owner or queue gave all the same. Of the sessions that others were
    evicted for it has whether they wait still: otherwise the room returns.
    """

    def __init__(self) -> None:
        self._evicted: dict[SessionId, _Evicted] = {}
        self._takers: dict[SessionId, TakerState | None] = {}

    def put(self, row: Any, *, ended: bool) -> None:
        """Update a session from its row."""
        session_id = SessionId(row.session_id)
        if row.evictions == NO_EVICTIONS:
            self._evicted.pop(session_id, None)
        else:
            receipts = evictions_of(row.evictions)
            self._evicted[session_id] = _Evicted(row.scaling_group, row.queue, row.user, receipts, ended)

    def unknown_takers(self) -> list[SessionId]:
        """The takers that are not known yet; forgets those that no session needs."""
        live = (one.receipts for one in self._evicted.values() if not one.ended)
        last = (counted[-1] for one in live if (counted := recent(one)))
        wanted = dict.fromkeys(one.for_session for one in last if not one.for_booking)
        self._takers = {one: self._takers[one] for one in wanted if one in self._takers}
        return [one for one in wanted if one not in self._takers]

    def put_taker(self, row: Any) -> None:
        """Update a session that others may have been evicted for."""
        self._takers[SessionId(row.session_id)] = TakerState(row.status, row.scheduled_ms, row.ended_ms)

    def taker_changed(self, row: Any) -> None:
        """Update a session if others were evicted for it."""
        if row.session_id in self._takers:
            self.put_taker(row)

    def rooms_back(self, scaling_group: str, bookings: Collection[str]) -> Mapping[SessionId, int]:
        """The sessions that were evicted in vain, and since when their room is free.

        `bookings` are those that there are.
        """
        found = {
            session_id: room_back_ms(one.receipts, self._taker_of(counted[-1], bookings))
            for session_id, one in self._evicted.items()
            if not one.ended and one.scaling_group == scaling_group and (counted := recent(one.receipts))
        }
        return {session_id: at_ms for session_id, at_ms in found.items() if at_ms is not None}

    def _taker_of(self, receipt: EvictionReceipt, bookings: Collection[str]) -> TakerState | None:
        if receipt.for_booking:
            return None if receipt.for_booking in bookings else BOOKING_REMOVED
        return self._takers.get(receipt.for_session)

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
                # Evictions among sessions of one user protect nothing from others, nor do those for bookings.
                taken = not (one.is_move or one.for_booking) and one.for_user != evicted.user
                if taken and now_ms - one.at_ms < HOUR_MS:
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

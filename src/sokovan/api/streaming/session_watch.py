"""Sessions as their watchers see them: read and encoded once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.api.mapping.sessions import KERNELS_SHOWN, is_final
from sokovan.api.pending_reasons import session_views
from sokovan.api.streaming.batch_reader import BatchReader
from sokovan.api.streaming.event_streams import sse
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.records import SessionSummary
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.api.sessions import SessionView

# Sessions read together, so that none waits long for the others.
READ_TOGETHER = 50
# Large sessions that are remembered; the clients of some may leave before the session has ended.
LARGE_KEPT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class WatchedSession:
    """A session as it was read: its event, and whether it is the last one.

    `took_ms` is how long the read took; a session that `is_large` changes often and takes long.
    """

    event: bytes
    is_final: bool
    is_large: bool
    took_ms: int


class WatchedSessions:
    """Reads sessions for the streams that watch them.

    Those known to be large are read one by one, so that no other waits for them.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._reads: BatchReader[SessionId, WatchedSession] = BatchReader(self._read, at_most=READ_TOGETHER)
        self._long_reads: BatchReader[SessionId, WatchedSession] = BatchReader(self._read, at_most=1)
        self._large: dict[SessionId, None] = {}

    async def current(self, session_id: SessionId) -> WatchedSession:
        """The session as it is now. Raises ObjectNotFound."""
        reads = self._long_reads if session_id in self._large else self._reads
        found = (await reads.get([session_id]))[session_id]
        self._large.pop(session_id, None)
        if found is None:
            raise ObjectNotFound(what="session", name=session_id)
        if found.is_large and not found.is_final:
            self._large[session_id] = None
            if len(self._large) > LARGE_KEPT_MAX:
                del self._large[next(iter(self._large))]
        return found

    async def _read(self, ids: Sequence[SessionId]) -> dict[SessionId, WatchedSession]:
        async def work(unit: UnitOfWork) -> list[tuple[SessionSummary, SessionView]]:
            records = await unit.sessions.summaries(SessionFilter(ids=ids), limit=len(ids), kernels_max=KERNELS_SHOWN)
            return list(zip(records, await session_views(unit, records), strict=True))

        began_ms = self._clock.monotonic_ms()
        found = await self._store.read(work)
        took_ms = max(1, self._clock.monotonic_ms() - began_ms)
        return {
            record.session_id: WatchedSession(
                event=sse("session", view, event_id=str(record.version)),
                is_final=is_final(record),
                is_large=view.size > KERNELS_SHOWN,
                took_ms=took_ms,
            )
            for record, view in found
        }

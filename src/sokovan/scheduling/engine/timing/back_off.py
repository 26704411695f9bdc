"""Back-off: an evicted session is tried again after a while.

Takes a session and the time. Gives the reason why it is not tried yet, if so. The wait doubles
with each eviction of the last day; the session keeps its age. If the one that it was evicted
for does not need the room, it is tried at once, and comes first for a while.
"""

from __future__ import annotations

from sokovan.domain.lifecycle.durations import duration_text
from sokovan.scheduling.engine.pending_session import PendingReason
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code

FIRST_S = 30
MOST_S = 600
# So long a session that was evicted in vain comes first for the room that it had.
COMES_FIRST_S = 60


def back_off(session: SessionWorkload, now_ms: int) -> PendingReason | None:
    """The reason of a session that was evicted too recently to be tried."""
    if not session.evictions_ms or session.room_back_ms is not None:
        return None
    times = len(session.evictions_ms)
    wait_s = min(MOST_S, FIRST_S << min(times - 1, 8))
    if max(session.evictions_ms) + wait_s * 1000 <= now_ms:
        return None
    evicted = "once" if times == 1 else f"{times} times"
    return PendingReason(
        Code.BACKING_OFF, f"it was evicted {evicted}, and is tried again {duration_text(wait_s)} after that"
    )


def comes_first(session: SessionWorkload, now_ms: int) -> bool:
    """Whether a session was evicted in vain, and its room is free only lately."""
    return session.room_back_ms is not None and now_ms - session.room_back_ms < COMES_FIRST_S * 1000

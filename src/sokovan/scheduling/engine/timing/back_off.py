"""Back-off: an evicted session is tried again after a while.

The time doubles with each eviction of the last day. The session keeps its age.
"""

from __future__ import annotations

from sokovan.scheduling.engine.pending_session import PendingReason
from sokovan.scheduling.engine.timing.calendar import seconds
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code

FIRST_S = 30
MOST_S = 600


def back_off(session: SessionWorkload, now_ms: int) -> PendingReason | None:
    """The reason of a session that was evicted too recently to be tried."""
    if not session.evictions_ms:
        return None
    times = len(session.evictions_ms)
    wait_s = min(MOST_S, FIRST_S << min(times - 1, 8))
    left_ms = max(session.evictions_ms) + wait_s * 1000 - now_ms
    if left_ms <= 0:
        return None
    evicted = "once" if times == 1 else f"{times} times"
    return PendingReason(Code.BACKING_OFF, f"it was evicted {evicted}, and is tried again in {seconds(left_ms)}")

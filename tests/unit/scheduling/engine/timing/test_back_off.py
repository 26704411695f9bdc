"""Back-off: an evicted session is tried again after a while."""

from __future__ import annotations

import pytest

from sokovan.scheduling.engine.timing.back_off import back_off, comes_first
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.evictions.takers import cluster
from tests.unit.scheduling.little_cluster import decide, session, verdict_of, where


@pytest.mark.parametrize(("times", "wait_s"), [(1, 30), (2, 60), (5, 480), (6, 600), (40, 600)])
def test_the_time_doubles_with_each_eviction_up_to_ten_minutes(times: int, wait_s: int) -> None:
    evicted = session("s", evictions_ms=tuple(range(times)))
    last = times - 1
    assert back_off(evicted, last + wait_s * 1000) is None
    reason = back_off(evicted, last + wait_s * 1000 - 1)
    assert reason is not None
    assert reason.code is Code.BACKING_OFF


def test_a_session_that_was_evicted_waits_and_then_keeps_its_age() -> None:
    sessions = (session("old", evictions_ms=(0,)), session("new"))
    early = decide(cluster(*sessions, agents=("a",), now_ms=1000))
    assert where(early) == {"new.0": "a"}
    assert verdict_of(early, "old").summary == "it was evicted once, and is tried again 30s after that"
    assert where(decide(cluster(*sessions, agents=("a",), now_ms=30_000))) == {"old.0": "a"}


def test_a_session_that_was_evicted_in_vain_comes_first_for_a_minute() -> None:
    back = session("back", evictions_ms=(0,), room_back_ms=1000)
    others = (session("urgent", queue="other", priority=9), session("older"))
    soon, later = (cluster(*others, back, agents=("a",), now_ms=at) for at in (2000, 61_000))
    assert comes_first(back, 60_999)
    assert where(decide(soon, queue_policy="capacity")) == {"back.0": "a"}
    assert where(decide(later, queue_policy="capacity")) != {"back.0": "a"}
    above = session("above", priority=1)
    assert where(decide(cluster(back, above, agents=("a",), now_ms=2000))) == {"above.0": "a"}

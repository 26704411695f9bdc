"""SeatTimes: a session does not fit before this time."""

from __future__ import annotations

from sokovan.scheduling.engine.starts.seat_times import SeatTimes
from sokovan.scheduling.engine.timing.calendar import Calendar
from sokovan.scheduling.snapshot import NEVER_MS, SessionWorkload
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def bound(taker: SessionWorkload, *running: SessionWorkload) -> int:
    seen = cluster(*running, taker)
    parts = TakerParts(seen)
    context = parts.engine.context
    return SeatTimes(context, Calendar(seen, context.workspace, depth=0)).lower_bound(parts.pending)


def test_enough_seats_are_free_once_enough_kernels_have_ended() -> None:
    running = (runs("a1", "a", time_limit_ms=300), runs("b1", "b", time_limit_ms=100), runs("c1", "c"))
    assert bound(session("taker"), *running) == 100
    assert bound(session("taker", "cpu=1", "cpu=1"), *running) == 300
    assert bound(session("taker", "cpu=1", "cpu=1", "cpu=1"), *running) == NEVER_MS


def test_sessions_that_columns_cannot_judge_have_no_bound() -> None:
    running = (runs("a1", "a", time_limit_ms=300),)
    assert bound(session("taker", group_minimums={"": 1}), *running) == 0

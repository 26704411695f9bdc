"""The sequencer deadline: the nearest latest start goes first."""

from __future__ import annotations

from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, verdict_of, where

HOUR = 3_600_000


def test_the_nearest_latest_start_within_the_hour_goes_first() -> None:
    seen = snapshot(
        [agent("a", "cpu=1")],
        [
            session("old"),
            session("far", deadline_ms=2 * HOUR + 1, time_limit_ms=HOUR),
            session("soon", deadline_ms=HOUR, time_limit_ms=1000),
            session("sooner", deadline_ms=HOUR, time_limit_ms=2000),
        ],
    )
    assert where(decide(seen, sequencer="deadline")) == {"sooner.0": "a"}


def test_priority_comes_before_a_deadline() -> None:
    seen = snapshot([agent("a", "cpu=1")], [session("soon", deadline_ms=1000), session("high", priority=1)])
    assert where(decide(seen, sequencer="deadline")) == {"high.0": "a"}


def test_a_deadline_that_has_passed_gives_no_order_and_is_told() -> None:
    late = session("late", deadline_ms=500, time_limit_ms=600)
    seen = snapshot([agent("a", "cpu=1")], [session("old"), late], now_ms=0)
    plan = decide(seen, sequencer="deadline")
    assert where(plan) == {"old.0": "a"}
    verdict = verdict_of(plan, "late")
    assert verdict.code is Code.DEADLINE_IMPOSSIBLE
    assert verdict.summary.startswith("its deadline cannot be met: it had to start 1s ago; ")

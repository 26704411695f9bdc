"""Last in, first out."""

from __future__ import annotations

from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started


def test_the_session_that_was_submitted_last_goes_first() -> None:
    seen = snapshot([agent("a")], [session("early", submitted=3), session("late", submitted=9)])
    assert started(decide(seen, sequencer="lifo")) == ["late", "early"]


def test_sessions_of_one_instant_go_by_id() -> None:
    sessions = [session(name, submitted=5) for name in ("c", "a", "b")]
    assert started(decide(snapshot([agent("x")], sessions), sequencer="lifo")) == ["a", "b", "c"]


def test_priority_comes_above_youth() -> None:
    seen = snapshot([agent("a")], [session("urgent", priority=1), session("old"), session("young")])
    assert started(decide(seen, sequencer="lifo")) == ["urgent", "young", "old"]

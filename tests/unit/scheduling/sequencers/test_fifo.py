"""First in, first out."""

from __future__ import annotations

from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started


def test_the_session_that_was_submitted_first_goes_first() -> None:
    seen = snapshot([agent("a", "cpu=2")], [session("late", submitted=9), session("early", submitted=3)])
    assert started(decide(seen, sequencer="fifo")) == ["early", "late"]


def test_sessions_of_one_instant_go_by_id() -> None:
    sessions = [session(name, submitted=5) for name in ("c", "a", "b")]
    assert started(decide(snapshot([agent("x")], sessions), sequencer="fifo")) == ["a", "b", "c"]


def test_a_session_that_does_not_fit_blocks_no_other() -> None:
    seen = snapshot([agent("a", "cpu=2")], [session("wide", "cpu=3"), session("narrow", "cpu=2")])
    assert started(decide(seen, sequencer="fifo")) == ["narrow"]


def test_priority_comes_above_age() -> None:
    seen = snapshot([agent("a")], [session("old"), session("urgent", priority=1), session("idle", priority=-1)])
    assert started(decide(seen, sequencer="fifo")) == ["urgent", "old", "idle"]

"""Bin-packing: the highest occupancy wins, then the smaller agent, then the id."""

from __future__ import annotations

from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, where
from tests.unit.scheduling.selectors.two_forms import chosen


def test_the_busiest_agent_that_still_fits_is_taken() -> None:
    agents = [agent("a", "cpu=10", used="cpu=8"), agent("b", "cpu=10", used="cpu=4"), agent("c", "cpu=10")]
    assert chosen("concentrated", agents) == "a"
    assert chosen("concentrated", agents, "cpu=3") == "b"
    assert chosen("concentrated", agents, "cpu=7") == "c"


def test_occupancy_is_that_of_the_fullest_slot() -> None:
    by_memory = agent("z", "cpu=10 mem=10Gi", used="mem=9Gi")
    by_cpu = agent("a", "cpu=10 mem=10Gi", used="cpu=8 mem=1Gi")
    assert chosen("concentrated", [by_memory, by_cpu]) == "z"


def test_of_equally_busy_agents_the_smaller_is_taken() -> None:
    assert chosen("concentrated", [agent("a", "cpu=8", used="cpu=4"), agent("b", "cpu=4", used="cpu=2")]) == "b"


def test_size_counts_every_slot_against_the_largest_agent() -> None:
    assert chosen("concentrated", [agent("a", "cpu=4 mem=8Gi"), agent("b", "cpu=5 mem=2Gi")]) == "b"


def test_of_equal_agents_the_first_by_id_is_taken() -> None:
    assert chosen("concentrated", [agent("b"), agent("a"), agent("c")]) == "a"


def test_work_without_accelerators_avoids_agents_that_have_them_however_busy() -> None:
    gpu = agent("a", "cpu=8 cuda.device=4", used="cpu=6")
    assert chosen("concentrated", [gpu, agent("b", "cpu=8")]) == "b"
    assert chosen("concentrated", [gpu, agent("b", "cpu=8")], "cpu=1 cuda.device=1") == "a"


def test_work_without_accelerators_takes_such_an_agent_rather_than_wait() -> None:
    assert chosen("concentrated", [agent("a", "cpu=8 cuda.device=4"), agent("b", "cpu=1")], "cpu=2") == "a"


def test_fewer_kinds_of_unused_accelerators_are_better() -> None:
    both = agent("a", "cpu=4 cuda.device=1 rocm.device=1")
    assert chosen("concentrated", [both, agent("b", "cpu=4 cuda.device=1")]) == "b"
    assert chosen("concentrated", [both, agent("b", "cpu=4 cuda.shares=1")]) == "b"


def test_sessions_fill_one_agent_before_they_open_the_next() -> None:
    seen = snapshot([agent("a", "cpu=2"), agent("b", "cpu=2")], [session(name) for name in "stu"])
    assert where(decide(seen, selector="concentrated")) == {"s.0": "a", "t.0": "a", "u.0": "b"}

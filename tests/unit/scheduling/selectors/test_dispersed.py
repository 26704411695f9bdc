"""Spreading: the lowest occupancy wins, then the larger agent, then the id."""

from __future__ import annotations

from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, where
from tests.unit.scheduling.selectors.two_forms import chosen


def test_the_idlest_agent_is_taken() -> None:
    agents = [agent("a", "cpu=10", used="cpu=8"), agent("b", "cpu=10", used="cpu=4"), agent("c", "cpu=10")]
    assert chosen("dispersed", agents) == "c"


def test_occupancy_is_that_of_the_fullest_slot() -> None:
    by_memory = agent("a", "cpu=10 mem=10Gi", used="mem=9Gi")
    by_cpu = agent("z", "cpu=10 mem=10Gi", used="cpu=8 mem=1Gi")
    assert chosen("dispersed", [by_memory, by_cpu]) == "z"


def test_of_equally_idle_agents_the_larger_is_taken() -> None:
    assert chosen("dispersed", [agent("a", "cpu=4", used="cpu=2"), agent("b", "cpu=8", used="cpu=4")]) == "b"


def test_of_equal_agents_the_first_by_id_is_taken() -> None:
    assert chosen("dispersed", [agent("b"), agent("a"), agent("c")]) == "a"


def test_work_without_accelerators_avoids_agents_that_have_them_however_idle() -> None:
    gpu = agent("a", "cpu=8 cuda.device=4")
    assert chosen("dispersed", [gpu, agent("b", "cpu=8", used="cpu=6")]) == "b"
    assert chosen("dispersed", [gpu, agent("b", "cpu=8")], "cpu=1 cuda.device=1") == "a"


def test_sessions_and_the_kernels_of_one_session_spread_over_the_agents() -> None:
    agents = [agent("a", "cpu=4"), agent("b", "cpu=4")]
    sessions = [session("s", "cpu=1", "cpu=1"), session("t"), session("u")]
    assert where(decide(snapshot(agents, sessions), selector="dispersed")) == {
        "s.0": "a", "s.1": "b", "t.0": "a", "u.0": "b",
    }  # fmt: skip


def test_an_agent_that_is_over_its_capacity_in_one_slot_comes_last_for_the_others() -> None:
    over = agent("a", "cpu=4 mem=1Gi", used="mem=2Gi")
    assert chosen("dispersed", [over, agent("b", "cpu=4", used="cpu=2")]) == "b"

"""Compatibility: most remaining resources first, in the group's slot priority."""

from __future__ import annotations

from tests.unit.scheduling.little_cluster import agent
from tests.unit.scheduling.selectors.two_forms import chosen

CPU_FIRST = ("cpu", "mem")
MEMORY_FIRST = ("mem", "cpu")


def test_the_agent_with_most_of_the_first_slot_is_taken() -> None:
    agents = [agent("a", "cpu=4 mem=8Gi"), agent("b", "cpu=8 mem=2Gi")]
    assert chosen("legacy", agents, slot_priority=CPU_FIRST) == "b"
    assert chosen("legacy", agents, slot_priority=MEMORY_FIRST) == "a"


def test_what_remains_counts_not_what_is_there() -> None:
    agents = [agent("a", "cpu=16", used="cpu=13"), agent("b", "cpu=4")]
    assert chosen("legacy", agents, slot_priority=CPU_FIRST) == "b"


def test_the_next_slot_decides_where_the_first_is_equal() -> None:
    agents = [agent("a", "cpu=4 mem=2Gi"), agent("b", "cpu=4 mem=4Gi")]
    assert chosen("legacy", agents, slot_priority=CPU_FIRST) == "b"


def test_where_all_slots_are_equal_the_first_by_id_is_taken() -> None:
    assert chosen("legacy", [agent("c"), agent("b"), agent("d")]) == "b"


def test_slots_that_the_priority_does_not_name_do_not_count() -> None:
    agents = [agent("a", "cpu=4 mem=1Gi"), agent("b", "cpu=4 mem=64Gi")]
    assert chosen("legacy", agents, slot_priority=("cpu",)) == "a"


def test_slot_names_match_exactly() -> None:
    agents = [agent("a", "cpu=2 cpu-quota=1"), agent("b", "cpu=1 cpu-quota=9")]
    assert chosen("legacy", agents, slot_priority=("cpu",)) == "a"


def test_a_priority_that_names_no_slot_of_the_cluster_leaves_it_to_the_id() -> None:
    assert chosen("legacy", [agent("b", "cpu=8"), agent("a", "cpu=2")], slot_priority=("tpu.device",)) == "a"


def test_devices_come_first_by_default() -> None:
    agents = [agent("a", "cpu=64 cuda.device=1"), agent("b", "cpu=8 cuda.device=4")]
    assert chosen("legacy", agents, "cpu=1 cuda.device=1") == "b"


def test_work_without_accelerators_avoids_agents_that_have_them() -> None:
    assert chosen("legacy", [agent("a", "cpu=64 cuda.device=8"), agent("b", "cpu=2")]) == "b"

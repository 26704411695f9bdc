"""Round-robin: across sessions, cycles and changing agents."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AgentId, ScalingGroupName
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, where
from tests.unit.scheduling.selectors.two_forms import chosen

THREE = [agent("a"), agent("b"), agent("c")]


def cycles(agents_of_each: Sequence[Sequence[AgentInfo]], *, per_cycle: int = 1) -> list[str]:
    """The agents of sessions of one cpu, cycle by cycle, with the cursor passed from plan to snapshot."""
    went: list[str] = []
    cursors: dict[str, AgentId] = {}
    for number, agents in enumerate(agents_of_each):
        sessions = [session(f"s{number}-{index}") for index in range(per_cycle)]
        plan = decide(snapshot(agents, sessions, cursors=cursors), selector="roundrobin")
        cursors.update(plan.cursors)
        went.extend(where(plan).values())
    return went


def test_the_first_request_goes_to_the_first_agent_and_the_fourth_comes_round_again() -> None:
    assert cycles([THREE], per_cycle=4) == ["a", "b", "c", "a"]


def test_the_kernels_of_one_session_rotate_too() -> None:
    plan = decide(snapshot(THREE, [session("s", "cpu=1", "cpu=1", "cpu=1", "cpu=1")]), selector="roundrobin")
    assert where(plan) == {"s.0": "a", "s.1": "b", "s.2": "c", "s.3": "a"}


def test_the_rotation_goes_on_in_the_next_cycle() -> None:
    assert cycles([THREE] * 5) == ["a", "b", "c", "a", "b"]


def test_the_rotation_goes_on_after_the_last_agent_was_removed() -> None:
    assert cycles([THREE, THREE, [agent("a"), agent("c")], THREE]) == ["a", "b", "c", "a"]


def test_the_rotation_finds_its_place_among_agents_that_are_all_new() -> None:
    assert cycles([THREE, [agent("aa"), agent("d")], [agent("b"), agent("e")]]) == ["a", "aa", "b"]


def test_in_both_forms_the_next_agent_by_id_after_the_last_is_taken() -> None:
    assert chosen("roundrobin", THREE) == "a"
    assert chosen("roundrobin", THREE, last="a") == "b"
    assert chosen("roundrobin", THREE, last="c") == "a"
    assert chosen("roundrobin", THREE, last="bb") == "c"
    assert chosen("roundrobin", THREE, last="zebra") == "a"


def test_an_agent_without_room_is_skipped_and_occupancy_does_not_matter() -> None:
    agents = [agent("a"), agent("b", used="cpu=4"), agent("c", used="cpu=3"), agent("d")]
    assert chosen("roundrobin", agents, last="a") == "c"


def test_work_without_accelerators_rotates_among_agents_without_them() -> None:
    agents = [agent("a"), agent("b", "cpu=4 cuda.device=1"), agent("c")]
    assert cycles([agents], per_cycle=4) == ["a", "c", "a", "c"]


def test_the_cursor_is_kept_for_the_scaling_group_and_only_where_it_moved() -> None:
    group = ScalingGroup(ScalingGroupName("gpu"))
    elsewhere = {"cpu": AgentId("a")}
    seen = snapshot(THREE, [session("s")], scaling_group=group, cursors=elsewhere)
    assert decide(seen, selector="roundrobin").cursors == {"gpu": "a"}
    idle = snapshot(THREE, [], scaling_group=group, cursors={"gpu": AgentId("b")})
    assert decide(idle, selector="roundrobin").cursors == {}


def test_a_gang_that_does_not_fit_does_not_move_the_cursor() -> None:
    gang = session("gang", *["cpu=3"] * 4)
    plan = decide(snapshot(THREE, [gang, session("s")]), selector="roundrobin")
    assert where(plan) == {"s.0": "a"}

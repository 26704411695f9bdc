"""A small hall of racks: what is near to what, and what is no tree at all."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.topology import ROOT, TIER_MAX, HyperNode, HyperNodeTree
from sokovan.domain.errors import InvalidTopology, TopologyMismatch

# hall ── row1 ── rack1 ── a1 a2
#      │       └─ rack2 ── a3
#      └─ rack3 ── a4                    a5 stands outside
HALL = HyperNodeTree(
    ["a5", "a4", "a3", "a2", "a1"],
    [
        HyperNode("hall", 3, ("row1", "rack3")),
        HyperNode("row1", 2, ("rack2", "rack1"), tier_name="row"),
        HyperNode("rack1", 1, ("a2", "a1"), tier_name="rack"),
        HyperNode("rack2", 1, ("a3",), tier_name="rack"),
        HyperNode("rack3", 1, ("a4",)),
    ],
)


def test_agents_stand_in_depth_first_order_by_name() -> None:
    assert HALL.agents == ("a5", "a4", "a1", "a2", "a3")
    assert HALL.position("a1") == 2


@pytest.mark.parametrize(
    ("name", "agents"),
    [
        ("rack1", ("a1", "a2")),
        ("row1", ("a1", "a2", "a3")),
        ("hall", ("a4", "a1", "a2", "a3")),
        ("a5", ("a5",)),
        (ROOT, ("a5", "a4", "a1", "a2", "a3")),
    ],
)
def test_every_hypernode_is_one_slice_of_the_agents(name: str, agents: tuple[str, ...]) -> None:
    start, stop = HALL.span(name)
    assert HALL.agents[start:stop] == agents
    assert HALL.agents_under(name) == agents


def test_ancestors_end_at_the_virtual_root() -> None:
    assert list(HALL.ancestors("a1")) == ["rack1", "row1", "hall", ROOT]
    assert list(HALL.ancestors("a5")) == [ROOT]
    assert list(HALL.ancestors(ROOT)) == []
    assert ROOT not in {node.name for node in HALL.hypernodes}


def test_the_way_down_is_by_name() -> None:
    assert HALL.children("row1") == ("rack1", "rack2")
    assert HALL.children(ROOT) == ("a5", "hall")
    assert HALL.children("a1") == ()


def test_tiers_count_from_the_agents_up() -> None:
    assert [HALL.tier(name) for name in ("a1", "rack1", "row1", "hall", ROOT)] == [0, 1, 2, 3, 4]
    assert HALL.root_tier == 4


def test_a_tier_is_found_by_its_name_if_it_has_one() -> None:
    assert HALL.tier_named("rack") == 1
    assert HALL.tier_named("row") == 2
    assert HALL.tier_named("campus") is None


def test_the_domain_of_agents_is_the_lowest_hypernode_that_holds_them() -> None:
    assert HALL.domain_of(["a1"]) == "rack1"
    assert HALL.domain_of(["a3", "a1"]) == "row1"
    assert HALL.domain_of(["a1", "a4"]) == "hall"
    assert HALL.domain_of(["a1", "a5"]) == ROOT
    assert HALL.domain_of(["a5"]) == ROOT
    assert HALL.domain_of([]) is None


@pytest.mark.parametrize("ask", [HALL.position, HALL.span, HALL.tier, HALL.children, HALL.agents_under])
def test_a_question_about_a_name_that_is_not_there_is_refused(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(TopologyMismatch, match="no agent or HyperNode 'a9'"):
        ask("a9")


def test_the_way_up_from_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(TopologyMismatch):
        list(HALL.ancestors("a9"))
    with pytest.raises(TopologyMismatch):
        HALL.domain_of(["a1", "rack1"])


def test_without_hypernodes_all_agents_are_equally_near() -> None:
    flat = HyperNodeTree(["b", "a"])
    assert flat.agents == ("a", "b")
    assert flat.domain_of(["a", "b"]) == flat.domain_of(["a"]) == ROOT
    assert flat.root_tier == 1


def test_a_network_without_agents_is_empty_and_sound() -> None:
    empty = HyperNodeTree([])
    assert empty.agents == ()
    assert empty.span(ROOT) == (0, 0)


def test_an_agent_that_is_listed_twice_is_one_agent() -> None:
    assert HyperNodeTree(["a", "a"]).agents == ("a",)


def test_the_hypernodes_are_kept_as_they_were_given_by_name() -> None:
    assert [node.name for node in HALL.hypernodes] == ["hall", "rack1", "rack2", "rack3", "row1"]
    assert HALL.hypernodes[4].members == ("rack2", "rack1")


def test_one_tier_has_one_name() -> None:
    with pytest.raises(InvalidTopology, match="'s' calls tier 2 'rack', which is tier 1 elsewhere") as refusal:
        HyperNodeTree(["a", "b"], [HyperNode("r", 1, ("a",), "rack"), HyperNode("s", 2, ("b",), "rack")])
    assert refusal.value.hint == "give each tier one name"


def test_the_highest_tier_is_still_a_tier() -> None:
    assert HyperNodeTree(["a"], [HyperNode("r", TIER_MAX, ("a",))]).root_tier == TIER_MAX + 1


@pytest.mark.slow
def test_a_long_chain_on_one_tier_is_refused_as_fast_as_it_is_read() -> None:
    chain = [HyperNode(f"r{number}", 1, (f"r{number + 1}",)) for number in range(20_000)]
    with pytest.raises(InvalidTopology, match="'r0' of tier 1 has a member 'r1' of tier 1"):
        HyperNodeTree(["a"], [*chain, HyperNode("r20000", 1, ("a",))])


@pytest.mark.slow
def test_a_long_circle_is_named_as_one_and_cut_short() -> None:
    circle = [HyperNode(f"r{number}", 1, (f"r{(number + 1) % 20_000}",)) for number in range(20_000)]
    with pytest.raises(InvalidTopology, match="is part of a cycle: 'r0 in r19999 in r19998") as refusal:
        HyperNodeTree([], circle)
    assert len(refusal.value.message) < 200


def test_a_tier_is_called_by_its_name_or_its_number() -> None:
    racks = [HyperNode("r1", 1, ("a",), "rack"), HyperNode("x", 2, ("r1",))]
    assert [HyperNodeTree(["a"], racks).tier_text(tier) for tier in (1, 2, 3)] == ["rack", "2", "whole cluster"]

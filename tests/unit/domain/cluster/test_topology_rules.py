"""Tests of the topology as an administrator gives it."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.cluster.topology_rules import HYPERNODES_MAX, TierRule, Topology
from sokovan.domain.errors import InvalidInput, InvalidTopology

RULES = (TierRule(1, "nvlink", "nvlink"), TierRule(2, "rack", "rack"), TierRule(3, "zone", "zone"))


def shown(topology: Topology, agents: dict[str, dict[str, str]]) -> dict[str, tuple[str, ...]]:
    found = topology.hypernodes_over(agents)
    HyperNodeTree(agents, found)
    return {node.name: node.members for node in found}


def test_agents_with_the_same_label_values_share_a_hypernode_of_that_tier() -> None:
    agents = {
        "a1": {"zone": "z1", "rack": "r1", "nvlink": "n1"},
        "a2": {"zone": "z1", "rack": "r1", "nvlink": "n1"},
        "a3": {"zone": "z1", "rack": "r2"},
        "a4": {"zone": "z2", "rack": "r1"},
        "a5": {},
    }
    assert shown(Topology(RULES), agents) == {
        "z1/r1/n1": ("a1", "a2"),
        "z1/r1": ("z1/r1/n1",),
        "z1/r2": ("a3",),
        "z2/r1": ("a4",),
        "z1": ("z1/r1", "z1/r2"),
        "z2": ("z2/r1",),
    }


def test_a_missing_label_leaves_out_its_tier_only() -> None:
    tree = Topology(RULES).tree({"a1": {"zone": "z1", "nvlink": "n1"}, "a2": {"rack": "r1"}})
    assert list(tree.ancestors("a1"))[:-1] == ["z1/n1", "z1"]
    assert list(tree.ancestors("a2"))[:-1] == ["r1"]
    assert (tree.tier("z1/n1"), tree.tier_named("rack")) == (1, 2)


def test_a_slash_in_a_label_value_merges_no_zones() -> None:
    agents = {"a1": {"zone": "x/y", "rack": "r"}, "a2": {"zone": "x", "rack": "y/r"}}
    found = shown(Topology(RULES), agents)
    assert found == {"x/y/r": ("a1",), "rack:x/y/r": ("a2",), "x/y": ("x/y/r",), "x": ("rack:x/y/r",)}


def test_label_values_that_are_no_names_are_ignored() -> None:
    agents = {"a1": {"rack": "has spaces"}, "a2": {"rack": "r" * 129}, "a3": {"rack": ""}, "a4": {"rack": "r1"}}
    assert shown(Topology(RULES), agents) == {"r1": ("a4",)}


def test_equal_names_of_agents_tiers_and_listed_hypernodes_are_told_apart() -> None:
    listed = HyperNode("r2", 2, ("a4",), "rack")
    agents = {"r1": {"rack": "r1"}, "a2": {"nvlink": "r1"}, "a3": {"rack": "r2"}, "a4": {}}
    assert shown(Topology(RULES, (listed,)), agents) == {
        "rack:r1": ("r1",),
        "nvlink:r1": ("a2",),
        "rack:r2": ("a3",),
        "r2": ("a4",),
    }


def test_a_name_that_stays_taken_is_numbered() -> None:
    listed = (HyperNode("r1", 1, ("a1",)), HyperNode("rack:r1", 1, ("a2",)))
    agents = {"a1": {}, "a2": {}, "a3": {"rack": "r1"}}
    assert shown(Topology(RULES, listed), agents)["r1+2"] == ("a3",)


def test_a_listed_hypernode_takes_its_agents_from_the_rules() -> None:
    listed = HyperNode("special", 2, ("a1",), "rack")
    agents = {"a1": {"rack": "r1"}, "a2": {"rack": "r1"}}
    assert shown(Topology(RULES, (listed,)), agents) == {"special": ("a1",), "r1": ("a2",)}


def test_a_listed_hypernode_may_hold_one_that_follows_from_labels() -> None:
    topology = Topology(RULES[:2], (HyperNode("hall", 3, ("r1",)),))
    assert list(topology.tree({"a1": {"rack": "r1"}}).ancestors("a1"))[:-1] == ["r1", "hall"]
    assert shown(topology, {"a1": {}}) == {}


def test_a_topology_that_no_longer_holds_is_pruned_to_a_tree() -> None:
    topology = Topology(RULES, (HyperNode("hall", 2, ("r1", "gone")),))
    # What was a rack of tier 1 is now one of tier 2, which the hall of tier 2 cannot hold.
    assert shown(topology, {"a1": {"nvlink": "r1"}}) == {"r1": ("a1",), "hall": ("r1",)}
    assert shown(topology, {"a1": {"rack": "r1"}}) == {"r1": ("a1",)}


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ((HyperNode("r1", 1, ("r2",)), HyperNode("r2", 1, ("r1",))), "cycle"),
        ((HyperNode("r1", 1, ("a9",)),), "neither agent nor HyperNode"),
        ((HyperNode("r1", 1, ("a1",)), HyperNode("r2", 1, ("a1",))), "already"),
        ((HyperNode("r1", 2, ("a1",)), HyperNode("r2", 1, ("r1",))), "of tier 1 has a member"),
        ((HyperNode("r1", 1, ("a1",)), HyperNode("r1", 1, ("a2",))), "twice"),
        ((HyperNode("a1", 1, ("a2",)),), "name of an agent"),
    ],
)
def test_a_listed_topology_that_is_no_tree_is_refused(listed: tuple[HyperNode, ...], problem: str) -> None:
    with pytest.raises(InvalidTopology, match=problem):
        Topology(hypernodes=listed).tree({"a1": {}, "a2": {}})


@pytest.mark.parametrize(
    "tiers",
    [
        (TierRule(1, "rack"), TierRule(2, "rack")),
        (TierRule(1, "rack"), TierRule(1, "row")),
        (TierRule(1, "rack", "where"), TierRule(2, "row", "where")),
    ],
)
def test_tiers_differ_in_name_number_and_label(tiers: tuple[TierRule, ...]) -> None:
    with pytest.raises(InvalidTopology, match="two tiers have the"):
        Topology(tiers)


def test_sizes_are_bounded() -> None:
    many = tuple(HyperNode(f"r{number}", 1, (f"a{number}",)) for number in range(HYPERNODES_MAX + 1))
    with pytest.raises(InvalidTopology, match="at most 10000"):
        Topology(hypernodes=many)
    with pytest.raises(InvalidTopology, match="50100 members of HyperNodes"):
        Topology(hypernodes=tuple(HyperNode(f"r{one}", 1, ("a",) * 501) for one in range(100)))


@pytest.mark.parametrize("rule", [(0, "rack"), (65, "rack"), (True, "rack"), (1, ""), (1, "rack", ""), (1, "r", "\n")])
def test_a_tier_has_a_number_a_name_and_a_printable_label(rule: tuple[int, str, str]) -> None:
    with pytest.raises(InvalidInput):
        TierRule(*rule)

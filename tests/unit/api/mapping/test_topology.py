"""The topology from and to the wire."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.topology import topology_of, topology_view
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import TierRule, Topology
from sokovan.domain.errors import InvalidInput, InvalidTopology
from sokovan.domain.problems import InvalidRequest
from sokovan.orchestrator.topology_changes import topology_state
from sokovan.testing.stored_cluster import StoredCluster
from sokovan.wire.api.topology import HyperNodeBody, TierBody, TopologyBody

BODY = TopologyBody(
    tiers=[TierBody(name="rack", label="rack"), TierBody(name="zone")],
    hypernodes=[HyperNodeBody(name="z1", tier="zone", members=["r1"])],
)
TOPOLOGY = Topology((TierRule(1, "rack", "rack"), TierRule(2, "zone")), (HyperNode("z1", 2, ("r1",), "zone"),))


def test_tiers_are_numbered_in_their_order() -> None:
    assert topology_of(BODY) == TOPOLOGY


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (TopologyBody(tiers=[TierBody(name="a b")]), InvalidRequest),
        (TopologyBody(tiers=[], hypernodes=[HyperNodeBody(name="r", tier="rack", members=["a"])]), InvalidTopology),
        (
            TopologyBody(tiers=[TierBody(name="r")], hypernodes=[HyperNodeBody(name="", tier="r", members=["a"])]),
            InvalidRequest,
        ),
    ],
)
def test_a_body_that_is_no_topology_is_refused(body: TopologyBody, error: type[InvalidInput]) -> None:
    with pytest.raises(error):
        topology_of(body)


async def test_the_tree_is_shown_with_sums_over_the_agents_below() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 4000}, labels={"rack": "r1"})
        await cluster.agent("a2", slots={"cpu": 8000}, labels={"rack": "r1"})
        await cluster.agent("a3", slots={"cpu": 1000})
        await cluster.submit("s1", slots={"cpu": 1000})
        await cluster.place("s1", "a1")
        await cluster.put(TOPOLOGY)
        view = topology_view(await cluster.store.read(topology_state))
    assert (view.tiers, view.hypernodes) == (BODY.tiers, BODY.hypernodes)
    shown = [(node.name, node.kind, node.tier, node.parent, node.origin, node.agents) for node in view.tree]
    assert shown == [
        ("a3", "agent", 0, "", "", 1),
        ("z1", "hypernode", 2, "", "listed", 2),
        ("r1", "hypernode", 1, "z1", "label", 2),
        ("a1", "agent", 0, "r1", "", 1),
        ("a2", "agent", 0, "r1", "", 1),
    ]
    zone = view.tree[1]
    assert (zone.slots, zone.used, zone.free) == ({"cpu": 12000}, {"cpu": 1000}, {"cpu": 11000})

"""ManyCandidates: sets proposed by columns."""

from __future__ import annotations

from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.scheduling.engine.evictions.many import ManyCandidates
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_the_lowest_sessions_that_are_enough_are_proposed() -> None:
    low = [runs(f"s{number:02}", f"a{number:02}", priority=number % 4) for number in range(20)]
    made = TakerParts(cluster(*low, session("taker", "cpu=1", "cpu=1", priority=9)))
    assert made.names(next(ManyCandidates(made.taker).proposals())) == ["s00.0", "s04.0"]


def test_the_cheapest_hypernode_is_taken() -> None:
    low = [runs(f"s{number:02}", f"a{number:02}", priority=5 - number // 4) for number in range(12)]
    nodes = tuple(HyperNode(f"h{part}", 1, tuple(f"a{4 * part + i:02}" for i in range(4))) for part in range(3))
    near = TopologyConstraint(TopologyMode.HARD, 1)
    taker = session("taker", "cpu=1", "cpu=1", priority=9, topology=near)
    made = TakerParts(cluster(*low, taker, hypernodes=nodes))
    assert made.names(next(ManyCandidates(made.taker).proposals())) == ["s08.0", "s09.0"]

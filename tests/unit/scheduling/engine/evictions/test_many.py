"""ManyCandidates: sets proposed by columns."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.scheduling.engine.evictions import search
from sokovan.scheduling.engine.evictions.many import ManyCandidates
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import decide, session


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


def test_one_larger_gang_is_proposed_where_the_lowest_are_more_gangs() -> None:
    gangs = [runs(f"s{number:02}", f"a{number:02}") for number in range(4)]
    large = runs("wide", "b0", "b1", "b2", "b3", priority=1)
    made = TakerParts(cluster(*gangs, large, session("taker", *["cpu=1"] * 4, priority=9)))
    sets = [made.names(rows) for rows in ManyCandidates(made.taker).proposals()]
    assert sets == [["s00.0", "s01.0", "s02.0", "s03.0"], ["wide.0", "wide.1", "wide.2", "wide.3"]]


def test_there_is_one_proposal_where_no_gang_is_larger_than_those_that_end() -> None:
    low = [runs(f"s{number:02}", f"a{number:02}", f"b{number:02}") for number in range(4)]
    made = TakerParts(cluster(*low, session("taker", *["cpu=1"] * 4, priority=9)))
    assert [made.names(rows) for rows in ManyCandidates(made.taker).proposals()] == [
        ["s00.0", "s00.1", "s01.0", "s01.1"]
    ]


def test_the_set_with_fewer_whole_gangs_is_taken_though_only_columns_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", 0)
    gangs = [runs(f"s{number:02}", f"a{number:02}") for number in range(4)]
    large = runs("wide", "b0", "b1", "b2", "b3", priority=1)
    seen = cluster(*gangs, large, session("taker", *["cpu=1"] * 4, priority=9))
    plan = decide(seen, actions=("allocate", "preempt"), queue_policy="capacity")
    assert sorted(str(one.kernel_id) for one in plan.evictions) == ["wide.0", "wide.1", "wide.2", "wide.3"]
    assert plan.evictions[0].runner_up is not None
    assert plan.evictions[0].runner_up.whole_gangs == 4

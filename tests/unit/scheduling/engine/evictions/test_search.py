"""VictimSearch: all sets of a few candidates, columns for many."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.scheduling.engine.evictions import search
from sokovan.scheduling.engine.evictions.choices import cost_of
from sokovan.scheduling.engine.evictions.search import VictimSearch
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def victims(*running: SessionWorkload, kernels: int = 1, **more: Any) -> list[str]:
    """The kernels that a session of so many kernels takes from those that run."""
    taker = session("taker", *["cpu=1"] * kernels, priority=9, topology=more.pop("topology", None))
    made = TakerParts(cluster(*running, taker, **more))
    found = VictimSearch(made.taker).best()
    return [] if found is None else made.names(found)


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_surplus_is_taken_before_a_lower_gang_ends(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    made = TakerParts(
        cluster(runs("low", "a"), runs("wide", "b", "c", priority=5, min_kernels=1), session("taker", priority=9))
    )
    found = VictimSearch(made.taker).best()
    assert found is not None
    assert made.names(found) == ["wide.0"]


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_no_set_is_found_where_all_are_not_enough(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    made = TakerParts(cluster(runs("low", "a"), session("taker", "cpu=1", "cpu=1", priority=9)))
    assert VictimSearch(made.taker).best() is None


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_the_lower_of_two_sessions_or_kernels_is_taken(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    assert victims(runs("first", "a", priority=2), runs("second", "b", priority=1)) == ["second.0"]
    assert victims(runs("first", "a", priorities=[2]), runs("second", "b", priorities=[1])) == ["second.0"]


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_a_gang_whose_surplus_is_too_little_goes_whole(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    gang = runs("gang", "a", "b", "c", min_kernels=2)
    assert victims(gang, kernels=2) == ["gang.0", "gang.1", "gang.2"]
    assert victims(gang, kernels=1) == ["gang.0"]


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_a_hard_topology_is_kept_with_the_victims_gone(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    racks = (HyperNode("h0", 1, ("a", "b")), HyperNode("h1", 1, ("c", "d")))
    running = [runs(f"on-{agent}", agent, priority=rank) for agent, rank in zip("abcd", (1, 4, 2, 3), strict=True)]
    assert victims(*running, kernels=2, hypernodes=racks) == ["on-a.0", "on-c.0"]
    near = TopologyConstraint(TopologyMode.HARD, 1)
    assert victims(*running, kernels=2, hypernodes=racks, topology=near) == ["on-c.0", "on-d.0"]


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_among_equal_sessions_the_first_by_name_is_taken_in_any_order(
    sets_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    one, two = runs("one", "a"), runs("two", "b")
    assert victims(one, two) == victims(two, one) == ["one.0"]


def test_the_next_best_set_is_known_if_one_was_compared() -> None:
    running = (runs("first", "a", priority=2), runs("second", "b", priority=1), runs("third", "c", priority=3))
    made = TakerParts(cluster(*running, session("taker", priority=9)))
    search_ = VictimSearch(made.taker)
    found = search_.best()
    assert found is not None
    assert search_.runner_up is not None
    assert (made.names(found), made.names(search_.runner_up)) == (["second.0"], ["first.0"])
    assert [cost_of(made.rules, rows).priority for rows in (found, search_.runner_up)] == [1, 2]
    only = TakerParts(cluster(runs("only", "a"), session("taker", priority=9)))
    search_ = VictimSearch(only.taker)
    assert (search_.best(), search_.runner_up) == ((0,), None)

"""VictimSearch: all sets of a few candidates, columns for many."""

from __future__ import annotations

import pytest

from sokovan.scheduling.engine.evictions import search
from sokovan.scheduling.engine.evictions.search import VictimSearch
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_surplus_is_taken_before_a_lower_gang_ends(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    made = TakerParts(
        cluster(runs("low", "a"), runs("wide", "b", "c", priority=5, min_kernels=1), session("taker", priority=9))
    )
    found = VictimSearch(made.taker).best()
    assert found is not None
    assert made.names(found.rows) == ["wide.0"]


@pytest.mark.parametrize("sets_max", [0, 1024])
def test_no_set_is_found_where_all_are_not_enough(sets_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SETS_MAX", sets_max)
    made = TakerParts(cluster(runs("low", "a"), session("taker", "cpu=1", "cpu=1", priority=9)))
    assert VictimSearch(made.taker).best() is None

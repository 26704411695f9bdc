"""Reprieve: victims that are not needed are left out, dearest first."""

from __future__ import annotations

from sokovan.scheduling.engine.evictions.order import UnitOrder
from sokovan.scheduling.engine.evictions.reprieve import Reprieve
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_the_dearest_victim_is_spared_first() -> None:
    made = TakerParts(cluster(runs("low", "a", priority=1), runs("mid", "b", priority=2), session("taker", priority=9)))
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    assert made.names(Reprieve(made.taker, range(2)).run([0, 1], order)) == ["low.0"]


def test_a_gang_that_need_not_end_whole_keeps_its_dearest_kernels() -> None:
    made = TakerParts(
        cluster(runs("wide", "a", "b", "c", priorities=[1, 2, 3], min_kernels=2), session("taker", priority=9))
    )
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    assert made.names(Reprieve(made.taker, range(3)).run([0, 1, 2], order)) == ["wide.0"]

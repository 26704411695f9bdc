"""Reprieve: victims that are not needed are left out, dearest first."""

from __future__ import annotations

from sokovan.scheduling.engine.evictions.order import UnitOrder
from sokovan.scheduling.engine.evictions.reprieve import Reprieve
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import kernel, session


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


def test_a_gang_is_shrunk_beside_a_whole_one_and_keeps_the_kernel_that_leads() -> None:
    # As the command line submits it: the first kernel leads, and is a group of its own.
    low = [kernel(f"low.{i}", on=f"a{i}", leads=i == 0, group="sub" if i else "main") for i in range(6)]
    elastic = session("low", *low, min_kernels=2, group_minimums={"main": 1})
    mid = runs("mid", "b0", "b1", "b2", "b3", "b4", priority=1)
    made = TakerParts(cluster(elastic, mid, session("taker", *["cpu=1"] * 7, priority=9)))
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    kept = Reprieve(made.taker, range(11)).run(list(range(11)), order)
    assert made.names(kept) == ["low.1", "low.2", "mid.0", "mid.1", "mid.2", "mid.3", "mid.4"]


def test_a_gang_keeps_what_its_groups_need_before_what_is_dear() -> None:
    roles = ["ps", "ps", "worker", "worker", "worker"]
    parts = [
        kernel(f"wide.{i}", on=f"a{i}", group=role, priority=int(role == "worker")) for i, role in enumerate(roles)
    ]
    wide = session("wide", *parts, min_kernels=2, group_minimums={"ps": 2})
    made = TakerParts(cluster(wide, session("taker", *["cpu=1"] * 3, priority=9)))
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    kept = Reprieve(made.taker, range(5)).run(list(range(5)), order)
    assert made.names(kept) == ["wide.2", "wide.3", "wide.4"]


def test_a_gang_is_spared_whole_rather_than_that_another_one_keeps_more_of_its_kernels() -> None:
    wide = runs("wide", "a0", "a1", "a2", "a3", "a4", min_kernels=1)
    mid, small = runs("mid", "b0", "b1", "b2", priority=1), runs("tiny", "c0")
    made = TakerParts(cluster(wide, mid, small, session("taker", *["cpu=1"] * 7, priority=9)))
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    kept = Reprieve(made.taker, range(9)).run(list(range(9)), order)
    assert made.names(kept) == ["mid.0", "mid.1", "mid.2", "wide.0", "wide.1", "wide.2", "wide.3"]

"""UnitOrder: surplus before bundles, cheaper before dearer."""

from __future__ import annotations

from sokovan.scheduling.engine.evictions.order import UnitOrder
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_surplus_goes_before_whole_gangs_and_low_before_high() -> None:
    made = TakerParts(
        cluster(
            runs("pair", "a", "b", priority=1),
            runs("wide", "c", "d", "e", priority=2, priorities=[3, 1, 2], min_kernels=2),
            session("taker", priority=9),
        )
    )
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    units: dict[int, list[int]] = {}
    for row, position in zip(order.rows.tolist(), order.positions.tolist(), strict=True):
        units.setdefault(position, []).append(row)
    assert [made.names(rows) for rows in units.values()] == [["wide.1"], ["pair.0", "pair.1"], ["wide.0", "wide.2"]]
    assert order.is_bundled(order.upto(1)).tolist() == [False, True, True]


def test_units_that_release_more_go_first_if_asked() -> None:
    large = runs("large", "b", slots="cpu=2", priority=2)
    made = TakerParts(cluster(runs("small", "a", priority=1), large, session("taker", "cpu=2", priority=9), cpu=2))
    order = UnitOrder(made.taker, made.rules.candidates, largest_first=True)
    assert made.names([order.rows.tolist()[0]]) == ["large.0"]
    assert order.units == 2

"""UnitOrder: surplus before bundles, cheaper before dearer."""

from __future__ import annotations

import numpy as np
import pytest

from sokovan.scheduling.engine.evictions import order
from sokovan.scheduling.engine.evictions.order import SharedOrder, UnitOrder
from sokovan.scheduling.engine.evictions.rules import EvictionRules
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
    found = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    units: dict[int, list[int]] = {}
    for row, position in zip(found.rows.tolist(), found.positions.tolist(), strict=True):
        units.setdefault(position, []).append(row)
    assert [made.names(rows) for rows in units.values()] == [["wide.1"], ["pair.0", "pair.1"], ["wide.0", "wide.2"]]
    assert found.is_bundled(found.upto(1)).tolist() == [False, True, True]


def test_units_that_release_more_go_first_if_asked() -> None:
    large = runs("large", "b", slots="cpu=2", priority=2)
    made = TakerParts(cluster(runs("small", "a", priority=1), large, session("taker", "cpu=2", priority=9), cpu=2))
    found = UnitOrder(made.taker, made.rules.candidates, largest_first=True)
    assert made.names([found.rows.tolist()[0]]) == ["large.0"]
    assert found.units == 2


def test_the_beginning_of_an_order_ends_with_a_whole_unit() -> None:
    gangs = [runs(f"gang{i}", *(f"n{i}{j}" for j in range(3)), priority=i) for i in range(3)]
    made = TakerParts(cluster(*gangs, session("taker", priority=9)))
    whole = UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    assert whole.complete
    for first, rows in ((1, 3), (3, 3), (4, 6), (8, 9), (20, 9)):
        part = UnitOrder(made.taker, made.rules.candidates, largest_first=False, first=first)
        assert part.rows.tolist() == whole.rows[:rows].tolist()
        assert part.positions.tolist() == whole.positions[:rows].tolist()
        assert part.complete == (rows == 9)


def test_an_order_without_some_sessions_is_filtered_and_without_a_part_of_one_made_again() -> None:
    gangs = [runs(f"gang{i}", *(f"n{i}{j}" for j in range(3)), priority=i, min_kernels=1) for i in range(3)]
    made = TakerParts(cluster(*gangs, session("taker", priority=9)))
    flags = np.ones(9, bool)
    known = SharedOrder(flags, 9, np.array([3, 3, 3]), np.arange(9), flags)
    fewer = flags.copy()
    fewer[3:6] = False
    for candidates, size, expected in ((flags, 9, []), (fewer, 6, [3, 4, 5])):
        gone = known.gone(candidates, size, made.table)
        assert gone is not None
        assert gone.tolist() == expected
    rows, surplus = known.beginning(fewer, 8)
    assert (rows.tolist(), surplus.tolist()) == ([0, 1, 2, 6, 7], [True] * 5)
    left = SharedOrder(fewer, 6, np.array([3, 0, 3]), *known.beginning(fewer, 9))
    assert left.gone(flags, 9, made.table) is None, "some are new"
    fewer = fewer.copy()
    fewer[0] = False
    assert known.gone(fewer, 5, made.table) is None, "one leaves its gang"


@pytest.mark.parametrize("gone_max", [0, 64])
def test_an_order_that_others_left_is_that_of_the_rest(gone_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "GONE_MAX", gone_max)
    gangs = [runs(f"gang{i}", *(f"n{i}{j}" for j in range(3)), priority=i) for i in range(4)]
    made = TakerParts(cluster(*gangs, session("taker", priority=9)))
    UnitOrder(made.taker, made.rules.candidates, largest_first=False)
    made.table.keep_off("gang1")
    rules = EvictionRules("preempt", made.pending, made.table)
    taker = made.taker._replace(rules=rules)
    for first, rows, complete in (
        (1, [0, 1, 2], False),
        (4, [0, 1, 2, 6, 7, 8], False),
        (9, [0, 1, 2, *range(6, 12)], True),
    ):
        part = UnitOrder(taker, rules.candidates, largest_first=False, first=first)
        assert (part.rows.tolist(), part.complete) == (rows, complete)

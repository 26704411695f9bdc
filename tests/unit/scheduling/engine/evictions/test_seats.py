"""SeatCounter: seats by columns, before a Statement is built."""

from __future__ import annotations

import numpy as np

from sokovan.scheduling.engine.evictions.seats import SeatLedger
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def made() -> TakerParts:
    return TakerParts(cluster(runs("low", "a", "a", "b", min_kernels=0), session("taker", "cpu=2", priority=9), cpu=2))


def test_a_set_is_enough_if_an_agent_gains_a_whole_seat() -> None:
    parts = made()
    assert parts.seats.tight
    assert not parts.seats.enough(parts.rows("low.0"))
    assert parts.seats.enough(parts.rows("low.0", "low.1"))
    assert parts.seats.enough(parts.rows("low.2"))
    assert not parts.seats.enough_in(np.array(parts.rows("low.2")), range(1))


def test_seats_run_along_the_rows_of_an_agent() -> None:
    parts = made()
    [(shape, _)] = parts.seats.demand
    rows, first = np.array(parts.rows("low.0", "low.1", "low.2")), np.array([True, False, True])
    assert parts.seats.running(shape, rows, first).tolist() == [0, 1, 1]
    assert parts.seats.weights(np.array(parts.rows("low.0"))).tolist() == [(1 << 20) // 2]


def test_the_ledger_takes_back_what_is_not_needed() -> None:
    parts = made()
    ledger = SeatLedger(parts.seats, parts.rows("low.0", "low.1", "low.2"), range(2))
    assert ledger.take_back(parts.rows("low.2"))
    assert not ledger.take_back(parts.rows("low.0"))
    ledger.give(parts.rows("low.2"))
    assert ledger.take_back(parts.rows("low.0"))

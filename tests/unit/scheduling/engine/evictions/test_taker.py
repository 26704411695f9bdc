"""Taker: the parts of one search belong to one session."""

from __future__ import annotations

from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_a_taker_is_proved_to_fit_by_a_trial() -> None:
    made = TakerParts(cluster(runs("low", "a"), session("taker", priority=9)))
    assert made.taker.fits(made.rows("low.0")) is not None
    assert made.taker.fits(()) is None

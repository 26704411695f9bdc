"""Evictions on the wire."""

from __future__ import annotations

from sokovan.wire.api.evictions import EvictionCostView, EvictionView
from tests.unit.wire.api.bodies import read_by_both, written

COST = EvictionCostView(
    only_loans=False,
    whole_gangs=1,
    queue_distance=0,
    queue_priority=0,
    priority=2,
    kernel_priority=0,
    lost_slot_minutes=30,
    kernels=4,
)


def test_a_receipt_goes_over_the_wire_and_comes_back_the_same() -> None:
    eviction = EvictionView(
        number=1,
        action="preempt",
        at="2026-01-01T00:00:00Z",
        for_session="s-2",
        kernels=4,
        whole=True,
        lost_slot_s=1800,
        reported=False,
        ends_by="2026-01-01T00:01:00Z",
        cost=COST,
    )
    assert read_by_both(EvictionView, written(eviction)) == eviction
    assert eviction.next_best is None

"""What leaves for a booking is verified against the booking as it is at the commit."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.adapters.sql.allocation.booking_evictions import booking_problem, lock_bookings
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.scheduling.plan import Eviction
from sokovan.testing.stored_cluster import StoredCluster

GRACE_MS = 10_000
DUE_MS = 100_000 - GRACE_MS - BOOKING_LEAD_MS
LEAVES = [
    Eviction(
        KernelId(f"s.{agent}"), SessionId("s"), AgentId(agent), SessionId(""), "booking",
        notice_ms=GRACE_MS, for_booking="demo",
    )
    for agent in ("a", "b")
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "now_ms", "problem"),
    [
        ({}, DUE_MS, ""),
        ({}, DUE_MS - 1, "booking demo begins later now"),
        ({}, 200_000, "booking demo was removed, or has ended"),
        ({"name": "other"}, DUE_MS, "booking demo was removed, or has ended"),
        ({"agents": ("c",)}, DUE_MS, "booking demo has other agents now"),
        ({"agents": ("b",)}, DUE_MS, ""),
        ({"agents": (), "hypernode": "rack"}, DUE_MS, ""),
    ],
)
def test_a_session_leaves_for_a_booking_as_it_is_now(change: dict[str, Any], now_ms: int, problem: str) -> None:
    given: dict[str, Any] = {"name": "demo", "from_ms": 100_000, "to_ms": 200_000, "agents": ("a",), "users": ("u",)}
    booking = Booking(**{**given, **change})
    assert booking_problem({booking.name: booking}, LEAVES, now_ms) == problem


async def test_bookings_are_read_as_they_stay_until_the_commit() -> None:
    async with StoredCluster.open() as cluster:
        booking = Booking("demo", 1, 2, agents=("a",), users=("u",))
        await cluster.put(booking)
        assert await cluster.store.read(lambda unit: lock_bookings(unit.transaction)) == {"demo": booking}

"""Bookings: who may use which agents, and when."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.tenancy import Owner


def booking(**more: Any) -> Booking:
    return Booking(**{"name": "demo", "from_ms": 1000, "to_ms": 900_000, "agents": ("a",), **more})


def test_a_booking_permits_its_users_groups_and_queues() -> None:
    mine = booking(users=("ann",), groups=("lab",), queues=("prod",))
    assert mine.permits(Owner(user="ann"), "other")
    assert mine.permits(Owner(user="bob", group="lab"), "other")
    assert mine.permits(Owner(user="bob"), "prod")
    assert not mine.permits(Owner(user="bob"), "other")


def test_a_booking_that_nobody_uses_is_given_up_and_maintenance_is_not() -> None:
    assert booking(release_unused_s=60).released_at() == 61_000
    assert booking(release_unused_s=60_000).released_at() == 900_000
    assert booking(kind=BookingKind.MAINTENANCE).released_at() == 900_000


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"to_ms": 1000}, "to"),
        ({"from_ms": -1}, "from"),
        ({"agents": ()}, "agents"),
        ({"hypernode": "rack"}, "agents"),
        ({"kind": BookingKind.MAINTENANCE, "users": ("ann",)}, "users"),
        ({"users": "ann"}, "users"),
        ({"agents": tuple(f"a{number}" for number in range(10_001))}, "agents"),
    ],
)
def test_a_booking_that_makes_no_sense_is_refused_with_its_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        booking(**wrong)
    assert refused.value.field == field

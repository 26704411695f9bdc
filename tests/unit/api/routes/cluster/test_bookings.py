"""Routes of bookings."""

from __future__ import annotations

import pytest

from sokovan.api.routes.cluster.bookings import BOOKINGS, booking_operations
from sokovan.domain.owners.access import Action, ObjectKind, role_may
from tests.unit.api.api_harness import ApiHarness
from tests.unit.domain.owners.test_access import ADMIN, ALICE


@pytest.mark.slow
async def test_bookings_are_listed_shown_put_and_removed(api: ApiHarness) -> None:
    found = [
        (one.method, one.path.removeprefix("/api/v1/bookings")) for one in booking_operations(api.app.state.context)
    ]
    assert found == [("GET", ""), ("GET", "/{name:path}"), ("PUT", "/{name:path}"), ("DELETE", "/{name:path}")]


def test_only_administrators_book_agents() -> None:
    assert BOOKINGS.kind is ObjectKind.BOOKING
    assert role_may(ADMIN, Action.CHANGE, BOOKINGS.kind)
    assert not role_may(ALICE, Action.CHANGE, BOOKINGS.kind)

"""Owners of a booking exist when they are added to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.api.access.bookings import require_known_owners
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.errors import ObjectNotFound
from tests.unit.api.api_harness import ApiHarness, member

BEFORE = Booking("demo", 0, 1, agents=("a1",), users=(member("north"), "removed since"))


@pytest.mark.slow
async def test_an_owner_that_is_added_exists_and_one_that_stays_need_not(api: ApiHarness) -> None:
    async def check(booking: Booking) -> None:
        await api.cluster.store.read(lambda unit: require_known_owners(unit, booking, BEFORE))

    await check(replace(BEFORE, groups=("north-group",), queues=("default",)))
    for added in (
        replace(BEFORE, users=("anna",)),
        replace(BEFORE, groups=("anna",)),
        replace(BEFORE, queues=("anna",)),
    ):
        with pytest.raises(ObjectNotFound, match="anna"):
            await check(added)

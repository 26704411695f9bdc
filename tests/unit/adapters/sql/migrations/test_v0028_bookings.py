"""An existing database gets the table of bookings."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0028_bookings
from sokovan.domain.cluster.booking import Booking
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_agents_of_an_existing_database_can_be_booked(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await migration.downgrade(cluster.store.database, v0028_bookings.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        booking = Booking("demo", 1, 2, agents=("a1",))
        await cluster.put(booking)
        assert await cluster.store.read(lambda unit: unit.catalog.all(Booking)) == [booking]

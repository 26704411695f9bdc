"""Reservations of an existing database have no time after the migration."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0027_reservation_times
from sokovan.adapters.sql.snapshots.carried_state import read_carried
from sokovan.scheduling.carried_state import CarriedState
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend
from tests.unit.adapters.sql.snapshots.test_carried_state import FIRST, reservation, write


@pytest.mark.parametrize("backend", Backend)
async def test_a_reservation_that_was_stored_before_has_no_time(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.submit("s1")
        await write(cluster, FIRST, CarriedState((reservation("s1", 0, starts_ms=5_000),)))
        await migration.downgrade(cluster.store.database, v0027_reservation_times.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        found = await cluster.store.read(lambda unit: read_carried(unit.transaction))
        assert found == {FIRST: CarriedState((reservation("s1", 0),))}

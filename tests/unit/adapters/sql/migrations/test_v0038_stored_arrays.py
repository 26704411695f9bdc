"""Arrays of an existing database are complete."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0038_stored_arrays
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.contracts.repositories.arrays import array
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_an_array_that_was_stored_before_has_no_session_to_be_stored(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        array_id, *_ = await array(cluster)
        await migration.downgrade(cluster.store.database, v0038_stored_arrays.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        [found] = await cluster.store.read(lambda unit: unit.arrays.named(array_id, SessionFilter()))
    assert (found.size, found.unstored) == (2, 0)

"""The migration can be applied, reverted and applied again, and counts what runs."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0011_past_usage
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend, apply_and_revert


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_a_reverted_migration_leaves_no_trace(backend: Backend, request: pytest.FixtureRequest) -> None:
    assert v0011_past_usage.revision == "0011"
    await apply_and_revert(backend.url(request), v0011_past_usage)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_slots_that_are_held_before_the_migration_are_counted_after_it(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.agent("a")
        for name in ("s1", "s2"):
            await cluster.submit(name)
            await cluster.place(name, "a")
        before = await cluster.store.read(lambda unit: unit.ledger.past_usage())
        database = cluster.store.database
        await migration.downgrade(database, str(v0011_past_usage.down_revision))
        await migration.upgrade(database)
        after = await cluster.store.read(lambda unit: unit.ledger.past_usage())
    assert {row.key: row.held for row in after} == {row.key: row.held for row in before}
    assert {row.at_ms for row in after} <= {row.at_ms for row in before}

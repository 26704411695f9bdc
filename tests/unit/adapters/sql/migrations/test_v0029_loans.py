"""Sessions of an existing database run on no loan after the migration."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0029_loans
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_sessions_that_were_stored_before_run_on_no_loan(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        before = await cluster.submit("s")
        await migration.downgrade(cluster.store.database, v0029_loans.down_revision or "base")
        await migration.upgrade(cluster.store.database)
        after = await cluster.session("s")
        assert (after, after.loan) == (before, None)

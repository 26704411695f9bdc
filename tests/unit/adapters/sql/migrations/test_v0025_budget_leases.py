"""An existing database gets the table of leases and keeps its tokens."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0025_budget_leases
from sokovan.domain.serving.budget import BudgetNeed
from sokovan.testing.contracts.repositories.routes import report_of, tokened
from sokovan.testing.contracts.repositories.serving import created
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.parametrize("backend", Backend)
async def test_a_token_of_an_existing_database_can_be_leased(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        database = cluster.store.database
        token = await tokened(cluster, (await created(cluster)).deployment_id)
        await migration.downgrade(database, v0025_budget_leases.down_revision or "base")
        await migration.upgrade(database)
        needs = [BudgetNeed(key_id=token.spec.token_id, tokens=1)]
        outcome = await cluster.store.run(lambda unit: unit.proxies.report(report_of(cluster), (), needs))
        assert [grant.budget for grant in outcome.grants] == [9]

"""Leases of months that are over are removed."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import SERVING
from sokovan.domain.ids import EndpointTokenId
from sokovan.domain.serving.budget import BudgetNeed
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.testing.clock import VirtualClock
from sokovan.testing.contracts.repositories.routes import report_of
from sokovan.testing.contracts.repositories.serving import created
from sokovan.testing.stored_cluster import StoredCluster


async def test_leases_of_past_months_are_removed() -> None:
    clock = VirtualClock()
    async with StoredCluster.open(clock=clock) as cluster:
        deployment = (await created(cluster)).deployment_id
        limits = TokenLimits(tokens_per_month=100)
        spec = EndpointTokenSpec(token_id=EndpointTokenId("tok-1"), deployment_id=deployment, limits=limits)
        await cluster.store.run(lambda unit: unit.endpoint_tokens.create(spec, "0" * 64, "u"))
        needs = [BudgetNeed(key_id="tok-1", tokens=5)]
        await cluster.store.run(lambda unit: unit.proxies.report(report_of(cluster), (), needs))

        async def leases() -> int:
            async with cluster.store.database.reading() as connection:
                found = await connection.execute(sa.select(sa.func.count()).select_from(SERVING.budget_leases))
                return int(found.scalar_one())

        await cluster.store.run(lambda unit: unit.proxies.expire(before_ms=unit.now_ms))
        assert await leases() == 1
        await clock.advance(40 * 24 * 3600)
        await cluster.store.run(lambda unit: unit.proxies.expire(before_ms=unit.now_ms))
        assert await leases() == 0

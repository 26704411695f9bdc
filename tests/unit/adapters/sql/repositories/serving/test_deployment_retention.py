"""Ended deployments are removed, and proxies read the whole table then."""

from __future__ import annotations

import pytest

from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.ports.storage import StoreRetention
from sokovan.testing.served_cluster import ServedCluster
from sokovan.testing.stored_cluster import BY_USER

pytestmark = pytest.mark.slow


async def test_a_table_without_removed_routes_is_of_another_epoch() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy()
        await cluster.converge()
        record = await cluster.deployment()
        await cluster.store.run(lambda unit: unit.deployments.move(record, DeploymentTrigger.DELETE_REQUESTED, BY_USER))
        await cluster.serve_for(20, step_s=2)
        assert (await cluster.deployment()).status == "terminated"
        before = await cluster.store.read(lambda unit: unit.routes.version())
        await cluster.clock.advance(100)
        while await cluster.store.expire(StoreRetention(sessions_s=0, audit_s=0, deployments_s=60)):
            pass
        assert await cluster.store.read(lambda unit: unit.deployments.events(record.deployment_id, limit=9)) == []
        after = await cluster.store.read(lambda unit: unit.routes.version())
        assert after[0] != before[0]
        assert after[1] > before[1]

"""The coordinators of routes and deployments have leases of their own."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ServedCluster


@pytest.mark.slow
async def test_another_manager_leads_neither_deployments_nor_routes() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        for coordinator in cluster.new_serving():
            assert not await cluster.turn(coordinator)
            assert coordinator.leadership.fence is None
        assert {cluster.deployments.leadership.name, cluster.routes.leadership.name} == {"deployments", "routes"}

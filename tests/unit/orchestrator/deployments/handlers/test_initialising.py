"""A new deployment gets one route, also if the manager is replaced meanwhile."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ServedCluster


@pytest.mark.slow
async def test_a_pending_deployment_is_provisioned_with_a_route() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        assert await cluster.route() is None
        await cluster.turn(cluster.deployments)
        assert (await cluster.deployment()).status == "provisioning"
        route = await cluster.route()
        assert route is not None
        assert route.spec.deployment_id == "d-chat"


@pytest.mark.slow
async def test_a_deployment_without_replicas_runs_at_once() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=0)
        await cluster.converge()
        assert (await cluster.deployment()).status == "running"
        assert await cluster.statuses() == []

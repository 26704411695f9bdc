"""The cluster of serving tests."""

from __future__ import annotations

import pytest

from sokovan.testing.served_cluster import ServedCluster


@pytest.mark.slow
async def test_a_deployment_serves_after_it_has_converged() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        assert await cluster.statuses() == ["active", "active"]


@pytest.mark.slow
async def test_a_cluster_that_does_not_converge_says_so() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        with pytest.raises(AssertionError, match="has not settled"):
            await cluster.converge(rounds_max=2)

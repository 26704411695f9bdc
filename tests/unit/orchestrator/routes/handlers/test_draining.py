"""A replica stops only when no proxy sends to it and nothing is under way."""

from __future__ import annotations

import pytest

from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.testing.served_cluster import ScriptedProxy, ServedCluster, revision_of

pytestmark = pytest.mark.slow


async def draining(cluster: ServedCluster) -> str:
    """Deploy two replicas and scale to one; the endpoint that drains."""
    await cluster.deploy(replicas=2, revision=revision_of(drain_timeout_s=100))
    await cluster.converge()
    for replica in await cluster.replicas():
        assert replica.endpoint is not None
        cluster.proxy.outstanding[replica.endpoint.endpoint_id] = 1
    await cluster.rescale(1)
    await cluster.converge()
    [leaves] = [one for one in await cluster.replicas() if one.status is ReplicaStatus.DRAINING]
    assert leaves.endpoint is not None
    return leaves.endpoint.endpoint_id


async def test_a_drain_lasts_while_requests_are_under_way() -> None:
    async with ServedCluster.serve() as cluster:
        endpoint = await draining(cluster)
        await cluster.serve_for(60, step_s=20)
        assert await cluster.statuses() == ["active", "draining"]
        states = {one.endpoint_id: one.state for one in cluster.proxy.entries["d-chat"].endpoints}
        assert states[endpoint] == "DRAINING"
        cluster.proxy.outstanding[endpoint] = 0
        await cluster.converge()
        assert await cluster.statuses() == ["active"]


async def test_a_drain_ends_at_its_deadline() -> None:
    async with ServedCluster.serve() as cluster:
        await draining(cluster)
        await cluster.serve_for(101, step_s=10.1)
        assert await cluster.statuses() == ["active"]


async def test_a_drain_waits_for_the_acknowledgement_of_every_live_proxy() -> None:
    async with ServedCluster.serve() as cluster:
        slow = ScriptedProxy(cluster.store, "slow")
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await slow.report()
        slow.acknowledges = False
        await cluster.rescale(1)
        for _ in range(5):
            await cluster.clock.advance(5)
            await slow.report()
            await cluster.converge()
        assert await cluster.statuses() == ["active", "draining"]
        slow.acknowledges = True
        await slow.report()
        await cluster.converge()
        assert await cluster.statuses() == ["active"]


async def test_a_proxy_that_is_gone_does_not_hold_up_a_drain() -> None:
    async with ServedCluster.serve() as cluster:
        gone = ScriptedProxy(cluster.store, "gone")
        await cluster.deploy(replicas=2)
        await cluster.converge()
        await gone.report()
        await cluster.rescale(1)
        await cluster.converge()
        assert await cluster.statuses() == ["active", "draining"]
        await cluster.serve_for(11, step_s=11)
        assert await cluster.statuses() == ["active"]

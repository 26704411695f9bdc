"""A request that comes while the last replica goes, in each phase of that, is answered by one wake-up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from sokovan.domain.serving.records import RouteDemand
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.orchestrator.routes.table_entries import entry_of
from sokovan.testing.served_cluster import ServedCluster

pytestmark = pytest.mark.slow

IDLE_S = 60
FROM_ZERO = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2, idle_s=IDLE_S, down_s=10)
BEFORE, AFTER = RouteDemand(arrived=1), RouteDemand(arrived=2)
HELD = RouteDemand(arrived=2, queued=1, holding=True)
Phase = Callable[[ServedCluster], Awaitable[bool]]


async def published(cluster: ServedCluster) -> bool:
    """Whether the published table tells proxies to hold requests."""
    route = await cluster.route()
    return route is not None and entry_of(route.entry).holding


async def is_decided(cluster: ServedCluster) -> bool:
    """No replica is desired, and proxies have not been told."""
    return (await cluster.deployment()).replicas_desired == 0 and not await published(cluster)


async def is_published(cluster: ServedCluster) -> bool:
    """Proxies are told, and use the table before."""
    return await published(cluster) and not cluster.proxy.entries["d-chat"].holding


async def is_draining(cluster: ServedCluster) -> bool:
    """Proxies hold requests; the replica has one that came before."""
    return cluster.proxy.entries["d-chat"].holding and await cluster.statuses() == ["draining"]


async def is_stopping(cluster: ServedCluster) -> bool:
    """The replica's session is asked to end."""
    return await cluster.statuses() == ["stopping"]


async def is_gone(cluster: ServedCluster) -> bool:
    """Nothing runs."""
    return (await cluster.deployment()).replicas_desired == 0 and await cluster.statuses() == []


async def parked(cluster: ServedCluster, phase: Phase) -> None:
    """Go on, one step of one component at a time, until a phase of the way to zero."""

    async def beat() -> None:
        await cluster.clock.advance(1)
        await cluster.agents.beat()

    steps: tuple[Callable[[], Awaitable[object]], ...] = (
        beat,
        cluster.settle,
        cluster.proxy.report,
        lambda: cluster.turn(cluster.deployments),
        lambda: cluster.turn(cluster.routes),
    )
    for _ in range(2 * IDLE_S):
        for step in steps:
            await step()
            if await phase(cluster):
                return
    raise AssertionError(f"it is not so: {phase.__doc__} {await cluster.statuses()}")


async def wake_ups(cluster: ServedCluster) -> list[str]:
    record = await cluster.deployment()
    entries = await cluster.store.read(lambda unit: unit.deployments.history(record.deployment_id))
    return [one.change.detail for one in entries if one.trigger == "scaled" and one.change.detail.startswith("0 to ")]


@pytest.mark.parametrize("phase", [is_decided, is_published, is_draining, is_stopping, is_gone])
async def test_a_request_in_each_phase_of_parking_is_answered_by_one_wake_up(phase: Phase) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas_min=0, replicas_max=4, scaling=FROM_ZERO)
        cluster.proxy.demand = {"d-chat": BEFORE}
        await cluster.converge()
        [replica] = await cluster.replicas()
        assert replica.endpoint is not None
        if phase is is_draining:
            cluster.proxy.outstanding = {replica.endpoint.endpoint_id: 1}
        await parked(cluster, phase)

        cluster.proxy.demand = {"d-chat": HELD}
        cluster.proxy.outstanding = {}
        for _ in range(30):
            await cluster.serve_for(1)
            if "active" in await cluster.statuses() and not cluster.proxy.entries["d-chat"].holding:
                break
        cluster.proxy.demand = {"d-chat": AFTER}
        await cluster.serve_for(IDLE_S / 2)
        assert await cluster.statuses() == ["active"]
        assert not cluster.proxy.entries["d-chat"].holding
        assert await wake_ups(cluster) == ["0 to 1 replicas"]

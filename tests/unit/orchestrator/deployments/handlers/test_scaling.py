"""The desired number follows bounds and demand, and has one writer."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.records import RevisionTraffic, RouteDemand
from sokovan.domain.serving.scaling import ScalingMetric, ScalingPolicy
from sokovan.testing.served_cluster import ServedCluster, revision_of

pytestmark = pytest.mark.slow


async def test_the_number_follows_the_bounds() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=1)
        for replicas in (3, 0, 2):
            await cluster.rescale(replicas)
            await cluster.converge()
            record = await cluster.deployment()
            assert record.replicas_desired == replicas
            assert record.status == "running"
            assert await cluster.statuses() == ["active"] * replicas


async def test_a_deployment_at_zero_holds_requests_and_is_no_error() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=1)
        await cluster.converge()
        await cluster.rescale(0)
        await cluster.converge()
        assert cluster.proxy.entries["d-chat"].holding
        route = await cluster.route()
        assert route is not None
        assert route.status == "running"


async def test_the_number_follows_requests_in_flight_and_queued() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling)
        await cluster.converge()
        cluster.proxy.demand = {"d-chat": RouteDemand(in_flight=3, queued=3)}
        await cluster.serve_for(90, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 3
        cluster.proxy.demand = {"d-chat": RouteDemand()}
        await cluster.serve_for(250, step_s=10)
        assert (await cluster.deployment()).replicas_desired == 3
        await cluster.serve_for(120, step_s=10)
        assert (await cluster.deployment()).replicas_desired == 1


async def test_the_number_follows_the_requests_that_wait() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.QUEUE, target=4)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling, revision=revision_of(concurrency_max=8))
        await cluster.converge()
        cluster.proxy.demand = {"d-chat": RouteDemand(in_flight=8, queued=0)}
        await cluster.serve_for(60, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 1
        cluster.proxy.demand = {"d-chat": RouteDemand(in_flight=8, queued=7)}
        await cluster.serve_for(90, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 3


async def test_requests_in_the_queues_of_engines_wait_too() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.QUEUE, target=4)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling, revision=revision_of(concurrency_max=32))
        await cluster.converge()
        cluster.proxy.demand = {"d-chat": RouteDemand(in_flight=9)}
        await cluster.serve_for(60, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 1
        cluster.proxy.waiting = lambda endpoint: 8 if endpoint == first_of(cluster) else 0
        await cluster.serve_for(90, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 3


def first_of(cluster: ServedCluster) -> str:
    """The endpoint that was there first."""
    return min(one.endpoint_id for one in cluster.proxy.entries["d-chat"].endpoints)


async def test_samples_of_a_silent_proxy_are_dropped() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling)
        await cluster.converge()
        cluster.proxy.demand = {"d-chat": RouteDemand(in_flight=8)}
        await cluster.proxy.report()
        cluster.proxy.alive = False
        await cluster.serve_for(60, step_s=6)
        assert (await cluster.deployment()).replicas_desired == 1


FROM_ZERO = ScalingPolicy(metric=ScalingMetric.CONCURRENCY, target=2, idle_s=60, down_s=10)


async def test_the_last_replica_goes_when_idle_and_a_held_request_wakes_one() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas_min=0, replicas_max=4, scaling=FROM_ZERO)
        await cluster.converge()
        cluster.proxy.demand = {"d-chat": RouteDemand(arrived=1)}
        await cluster.serve_for(30, step_s=5)
        cluster.proxy.demand = {"d-chat": RouteDemand(arrived=2)}
        await cluster.serve_for(40, step_s=5)
        assert await cluster.statuses() == ["active"]
        await cluster.serve_for(40, step_s=5)
        assert (await cluster.deployment()).replicas_desired == 0
        assert await cluster.statuses() == []
        assert cluster.proxy.entries["d-chat"].holding
        cluster.proxy.health = lambda _endpoint: None
        cluster.proxy.demand = {"d-chat": RouteDemand(queued=50, arrived=52, holding=True)}
        await cluster.serve_for(2)
        assert (await cluster.deployment()).replicas_desired >= 1
        assert cluster.proxy.entries["d-chat"].holding
        cluster.proxy.health = lambda _endpoint: True
        await cluster.serve_for(2)
        assert not cluster.proxy.entries["d-chat"].holding


async def test_the_number_follows_requests_per_second() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.QPS, target=5)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling)
        await cluster.converge()
        for second in range(70):
            cluster.proxy.demand = {"d-chat": RouteDemand(arrived=15 * second)}
            await cluster.serve_for(1)
        assert (await cluster.deployment()).replicas_desired == 3


async def test_the_number_follows_the_time_to_the_first_byte() -> None:
    async with ServedCluster.serve() as cluster:
        scaling = ScalingPolicy(metric=ScalingMetric.TTFT_P95, target=100)
        await cluster.deploy(replicas_min=1, replicas_max=4, scaling=scaling)
        await cluster.converge()
        late = 0
        for _ in range(45):
            # Each second ten requests get their first byte after up to 500 ms.
            late += 10
            counts = (0, 0, 0, 0, 0, 0, late)
            revisions = {"1": RevisionTraffic(served=late, first_byte_counts=counts)}
            cluster.proxy.demand = {"d-chat": RouteDemand(arrived=late, revisions=revisions)}
            await cluster.serve_for(2, step_s=2)
        assert (await cluster.deployment()).replicas_desired == 4
        await cluster.serve_for(420, step_s=20)
        assert (await cluster.deployment()).replicas_desired == 1

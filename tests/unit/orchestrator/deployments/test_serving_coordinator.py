"""One object that fails stops no other, and a replaced leader cannot write."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.engine import EngineDefinition, EngineRequest
from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT
from sokovan.testing.served_cluster import ServedCluster, define_plainly

pytestmark = pytest.mark.slow


async def test_a_deployment_whose_definition_fails_unexpectedly_stops_no_other() -> None:
    async with ServedCluster.serve() as cluster:

        def define(request: EngineRequest) -> EngineDefinition:
            if request.served_name == "bad":
                raise RuntimeError("a defect")
            return define_plainly(request)

        cluster.define = define
        await cluster.deploy("bad")
        await cluster.deploy("good")
        for _ in range(10):
            await cluster.agents.beat()
            await cluster.round()
        assert await cluster.statuses("good") == ["active"]
        assert {str(error) for _, error in cluster.failures} == {"a defect"}


async def test_a_cycle_is_soon_due_only_while_there_are_deployments() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.turn(cluster.deployments)
        idle_s = cluster.deployments.next_due_s()
        await cluster.deploy()
        await cluster.turn(cluster.deployments)
        busy_s = cluster.deployments.next_due_s()
        assert idle_s is not None
        assert busy_s is not None
        assert busy_s < idle_s


async def test_a_replaced_leader_cannot_write() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        former = cluster.deployments
        await cluster.clock.advance(11)
        cluster.deployments, cluster.routes = cluster.new_serving()
        await cluster.converge()
        await cluster.rescale(2)
        assert not await cluster.turn(former)
        assert (await cluster.deployment()).replicas_desired == 1


async def test_the_lease_is_renewed_beside_the_cycles_and_a_new_one_wakes_them() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.turn(cluster.deployments)
        second, _routes = cluster.new_serving()
        _cycles, keep = second.tasks()
        await keep.work()
        fences = [second.leadership.fence]
        await cluster.clock.advance(11)
        await cluster.hints.take(DEPLOYMENTS_HINT)
        await keep.work()
        fences.append(second.leadership.fence)
        assert [fence is None for fence in fences] == [True, False]
        assert await cluster.hints.take(DEPLOYMENTS_HINT)

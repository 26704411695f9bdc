"""Deleting drains replicas, and is forced in the end."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import EndpointTokenId
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.serving.token import EndpointTokenSpec
from sokovan.testing.served_cluster import ServedCluster, revision_of
from sokovan.testing.stored_cluster import BY_USER
from tests.unit.orchestrator.deployments.handlers.test_rollout import newest, update

pytestmark = pytest.mark.slow


async def delete(cluster: ServedCluster) -> None:
    record = await cluster.deployment()
    await cluster.store.run(lambda unit: unit.deployments.move(record, DeploymentTrigger.DELETE_REQUESTED, BY_USER))


async def test_requests_under_way_are_answered_before_the_end() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy()
        await cluster.converge()
        [replica] = await cluster.replicas()
        assert replica.endpoint is not None
        cluster.proxy.outstanding[replica.endpoint.endpoint_id] = 1
        token = EndpointTokenSpec(token_id=EndpointTokenId("t"), deployment_id=record.deployment_id)
        await cluster.store.run(lambda unit: unit.endpoint_tokens.create(token, "digest", "u"))
        await delete(cluster)
        await cluster.serve_for(60, step_s=20)
        assert await cluster.statuses() == ["draining"]
        cluster.proxy.outstanding.clear()
        await cluster.converge()
        assert (await cluster.deployment()).status == "terminated"
        assert cluster.proxy.entries == {}
        assert not await cluster.store.read(lambda unit: unit.endpoint_tokens.of_deployment(record.deployment_id))


async def test_a_deployment_that_does_not_end_is_forced() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(revision=revision_of(drain_timeout_s=3600))
        await cluster.converge()
        [replica] = await cluster.replicas()
        assert replica.endpoint is not None
        cluster.proxy.outstanding[replica.endpoint.endpoint_id] = 1
        await delete(cluster)
        await cluster.serve_for(920, step_s=92)
        assert (await cluster.deployment()).status == "terminated"
        assert await cluster.status(str(replica.session_id)) == "terminated"


@pytest.mark.parametrize("aborted", [False, True])
async def test_a_rollout_that_was_under_way_ends_with_its_deployment(aborted: bool) -> None:  # a case
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await cluster.converge()
        rollout = await update(cluster, environment={"A": "1"})
        if aborted:
            await cluster.store.run(lambda unit: unit.rollouts.move(rollout, RolloutTrigger.ABORTED, BY_USER))
        await delete(cluster)
        await cluster.converge()
        assert (await cluster.deployment()).status == "terminated"
        assert (await newest(cluster)).status is RolloutStatus.ROLLED_BACK


async def test_a_route_that_was_never_configured_is_deleted() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy()
        await cluster.turn(cluster.deployments)
        route = await cluster.route()
        assert route is not None
        assert route.status == "pending"
        await delete(cluster)
        await cluster.converge()
        entries = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
        assert [(one.before, one.trigger) for one in entries][1] == ("pending", "delete_requested")
        assert (await cluster.deployment(record.spec.name)).status == "terminated"


async def test_a_deployment_that_never_began_is_deleted() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy()
        await delete(cluster)
        await cluster.converge()
        assert (await cluster.deployment()).status == "terminated"

"""What deployments and routes tell, beside the promises of their ports."""

from sokovan.domain.events import DeploymentMoved, DeploymentScaled, RouteMoved
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.testing.contracts.serving import created, moved, replaced, route_moved, routed, scaled
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_wish_is_told_with_what_was_wanted_before() -> None:
    async with StoredCluster.open() as cluster:
        record = await created(cluster)
        await published(cluster)
        await scaled(cluster, record, 7)
        [event] = await published(cluster)
        assert isinstance(event, DeploymentScaled)
        assert (event.replicas_before, event.replicas_desired) == (record.spec.replicas_desired, 7)


async def test_moves_of_deployments_and_routes_are_told() -> None:
    async with StoredCluster.open() as cluster:
        record = await created(cluster)
        route = await routed(cluster, record.spec.deployment_id)
        await published(cluster)
        await moved(cluster, record, DeploymentTrigger.REPLICAS_REQUESTED)
        await route_moved(cluster, route, RouteTrigger.CONFIGURED)
        first, second = await published(cluster)
        assert isinstance(first, DeploymentMoved)
        assert (first.before, first.after) == (DeploymentStatus.PENDING, DeploymentStatus.PROVISIONING)
        assert isinstance(second, RouteMoved)
        assert second.trigger == "configured"


async def test_new_endpoints_are_no_move() -> None:
    async with StoredCluster.open() as cluster:
        route = await routed(cluster, (await created(cluster)).spec.deployment_id)
        await published(cluster)
        await replaced(cluster, route, [])
        assert await published(cluster) == []
        history = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
        assert [entry.trigger for entry in history] == ["created"]

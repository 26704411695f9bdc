"""Events of deployments and routes, beyond the contracts of their ports."""

from dataclasses import replace

from sokovan.domain.errors import Conflict
from sokovan.domain.events import DeploymentMoved, DeploymentScaled, RouteMoved
from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.domain.records import RouteRecord
from sokovan.domain.serving.route import Endpoint
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts.repositories.serving import (
    created,
    endpoint,
    moved,
    replaced,
    route_moved,
    route_now,
    routed,
    scaled,
)
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster, refusal


async def test_a_scale_request_is_published_with_the_previous_number() -> None:
    async with StoredCluster.open() as cluster:
        record = await created(cluster)
        await published(cluster)
        await scaled(cluster, record, 7)
        [event] = await published(cluster)
        assert isinstance(event, DeploymentScaled)
        assert (event.replicas_before, event.replicas_desired) == (record.spec.replicas_desired, 7)


async def test_moves_of_deployments_and_routes_are_published() -> None:
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


async def test_a_claim_that_is_refused_and_caught_leaves_the_endpoints(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster:
            deployment = (await created(cluster)).spec.deployment_id
            mine, theirs = endpoint(cluster), endpoint(cluster)
            await routed(cluster, deployment, theirs)
            route = await routed(cluster, deployment, mine)
            claim = replace(theirs, kernel_id=KernelId("other"))

            async def work(unit: UnitOfWork, route: RouteRecord = route, claim: Endpoint = claim) -> None:
                await refusal(unit.routes.set_endpoints(route, [claim]), Conflict)

            await cluster.store.run(work)
            assert await route_now(cluster, route.spec.route_id) == route


async def test_new_endpoints_are_no_move() -> None:
    async with StoredCluster.open() as cluster:
        route = await routed(cluster, (await created(cluster)).spec.deployment_id)
        await published(cluster)
        await replaced(cluster, route, [])
        assert await published(cluster) == []
        history = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
        assert [entry.trigger for entry in history] == ["created"]

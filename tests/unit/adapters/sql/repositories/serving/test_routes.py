"""Events of routes, beyond the contract of their port."""

from sokovan.domain.events import RouteMoved
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.testing.contracts.repositories.routes import published_entry, route_moved, routed
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster


async def test_moves_of_routes_are_published() -> None:
    async with StoredCluster.open() as cluster:
        route = await routed(cluster)
        await published(cluster)
        await route_moved(cluster, route, RouteTrigger.CONFIGURED)
        [event] = await published(cluster)
        assert isinstance(event, RouteMoved)
        assert event.trigger == "configured"


async def test_a_new_entry_is_no_move() -> None:
    async with StoredCluster.open() as cluster:
        route = await routed(cluster)
        await published(cluster)
        await published_entry(cluster, route, "entry")
        assert await published(cluster) == []
        history = await cluster.store.read(lambda unit: unit.routes.history(route.spec.route_id))
        assert [entry.trigger for entry in history] == ["created"]

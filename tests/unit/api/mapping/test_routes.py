"""Routes between wire and domain."""

from __future__ import annotations

from sokovan.api.mapping.routes import gateway_views, route_changes, route_view
from sokovan.domain.serving.deployment import DeploymentAccess
from sokovan.domain.serving.engine import RoutingPolicy
from sokovan.domain.serving.records import ProxyRecord
from sokovan.testing.served_cluster import ServedCluster
from sokovan.wire.api.routes import RouteBody, RouteView


async def seen(cluster: ServedCluster) -> RouteView:
    epoch, _ = await cluster.store.read(lambda unit: unit.routes.version())
    return route_view(
        await cluster.deployment(),
        await cluster.route(),
        replicas=await cluster.replicas(),
        proxies=await cluster.store.read(lambda unit: unit.proxies.live(since_ms=0)),
        epoch=epoch,
    )


def test_only_what_is_given_changes() -> None:
    assert route_changes(RouteBody()) == {}
    others = {"model_names": ["a"], "routing": "sticky", "sticky_by": "cookie:sid", "access": "public"}
    body = RouteBody(weights={"0": 0, "1": 1}, shares={"2": 30}, **others)  # type: ignore[arg-type]  # of several types
    assert route_changes(body) == {
        "weights": {"0": 0, "1": 1},
        "shares": {"2": 30},
        "model_names": ("a",),
        "routing": RoutingPolicy.STICKY,
        "sticky_by": "cookie:sid",
        "access": DeploymentAccess.PUBLIC,
    }


async def test_a_route_shows_its_endpoints_with_the_reports_on_them() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2, weights={"1": 3})
        assert (await seen(cluster)).status == "pending"
        await cluster.converge()
        view = await seen(cluster)
        assert (view.status, view.proxies, view.acknowledged) == ("running", 1, 1)
        assert [(one.replica, one.weight, one.status, one.healthy) for one in view.endpoints] == [
            (0, 1, "active", True),
            (1, 3, "active", True),
        ]
        assert [(one.revision, one.weight) for one in view.revisions] == [(1, 1000)]


def test_a_gateway_is_current_while_it_reports_the_newest_table() -> None:
    def proxy(name: str, version: int, epoch: str = "e") -> ProxyRecord:
        url = f"http://{name}:7648"
        return ProxyRecord(proxy_id=name, incarnation=1, epoch=epoch, version=version, reported_ms=0, url=url)

    proxies = [proxy("d", 4, "old"), proxy("c", 4), proxy("b", 3), proxy("a", 4)]
    found = gateway_views(proxies, {"b", "c", "d"}, epoch="e", version=4)
    assert [(one.url, one.reporting, one.current) for one in found] == [
        ("http://a:7648", False, False),
        ("http://b:7648", True, False),
        ("http://c:7648", True, True),
        ("http://d:7648", True, False),
    ]

"""Routes on the wire."""

from __future__ import annotations

from sokovan.wire.api.routes import (
    GatewayList,
    GatewayView,
    RouteBody,
    RouteEndpointView,
    RouteExport,
    RoutePage,
    RouteView,
)
from tests.unit.wire.api.bodies import read_by_both, written

ROUTE = RouteView(
    deployment="d-1",
    name="qwen",
    status="running",
    models=["qwen"],
    access="private",
    routing="prefix",
    weights={"0": 2},
    endpoints=[
        RouteEndpointView(replica=0, revision=1, status="active", weight=2, agent="a1", port=20_001, healthy=True)
    ],
)
GATEWAY = GatewayView(
    proxy="p-1", url="https://10.0.0.3:7648", reporting=True, current=True, reported_at="2026-01-01T00:00:00.000Z"
)


def test_bodies_and_views_survive_the_wire() -> None:
    body = RouteBody(weights={"0": 2}, shares={"2": 30}, model_names=["a"], routing="sticky", access="public")
    assert read_by_both(RouteBody, written(body)) == body
    page = RoutePage(items=[ROUTE])
    assert read_by_both(RoutePage, written(page)) == page
    gateways = GatewayList(items=[GATEWAY])
    assert read_by_both(GatewayList, written(gateways)) == gateways
    export = RouteExport(gateways=[GATEWAY], routes=[ROUTE])
    assert read_by_both(RouteExport, written(export)) == export

"""Routes of deployments, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.routes import Routes
from sokovan.wire.api.routes import GatewayList, RouteExport
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.wire.api.test_routes import GATEWAY, ROUTE


def test_a_route_is_read_and_listed() -> None:
    server = FakeServer(ok(ROUTE), ok({"items": [ROUTE]}))
    routes = Routes(Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()))
    assert routes.get("qwen") == next(iter(routes.list())) == ROUTE


def test_an_export_has_gateways_and_routes() -> None:
    server = FakeServer(ok(GatewayList(items=[GATEWAY])), ok({"items": [ROUTE]}))
    routes = Routes(Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()))
    assert routes.export() == RouteExport(gateways=[GATEWAY], routes=[ROUTE])

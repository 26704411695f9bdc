"""Routes of deployments, for the sync client."""

from __future__ import annotations

from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.routes import Routes
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.wire.api.test_routes import ROUTE


def test_a_route_is_read_and_listed() -> None:
    server = FakeServer(ok(ROUTE), ok({"items": [ROUTE]}))
    routes = Routes(Connection(ENDPOINT, transport=server.transport(), environment=FakeClock()))
    assert routes.get("qwen") == next(iter(routes.list())) == ROUTE

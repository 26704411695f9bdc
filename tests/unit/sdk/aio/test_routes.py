"""Routes of deployments, for the async client."""

from __future__ import annotations

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.aio.routes import AsyncRoutes
from sokovan.sdk.sync.routes import Routes
from sokovan.wire.api.routes import GatewayList, RouteBody, RouteExport
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, FakeServer, ok
from tests.unit.sdk.signatures import signatures
from tests.unit.wire.api.test_routes import GATEWAY, ROUTE


def test_the_names_are_those_of_the_sync_client() -> None:
    assert signatures(AsyncRoutes) == signatures(Routes)


async def test_every_question_is_one_request() -> None:
    server = FakeServer(ok(ROUTE), ok(ROUTE), ok({"items": [ROUTE]}))
    routes = AsyncRoutes(AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock()))
    assert await routes.get("qwen") == ROUTE
    assert await routes.set("qwen", RouteBody(weights={"0": 2})) == ROUTE
    assert [one async for one in routes.list()] == [ROUTE]


async def test_an_export_has_the_gateways_and_the_routes_that_were_named_or_all() -> None:
    gateways = ok(GatewayList(items=[GATEWAY]))
    server = FakeServer(gateways, ok(ROUTE), gateways, ok({"items": [ROUTE]}))
    routes = AsyncRoutes(AsyncConnection(ENDPOINT, transport=server.async_transport(), environment=FakeClock()))
    whole = RouteExport(gateways=[GATEWAY], routes=[ROUTE])
    assert [await routes.export("qwen"), await routes.export()] == [whole, whole]

"""The application: what it has, and what it has not."""

from __future__ import annotations

import pytest
from starlette.routing import Route

from sokovan.api.access.proxies import PROXY_PATHS
from sokovan.api.operations import OperationRoute
from tests.unit.api.api_harness import ApiHarness, api_harness

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_the_documented_routes_are_the_real_ones(api: ApiHarness) -> None:
    documented = {
        (path, method.upper())
        for path, methods in (await api.get("/openapi.json")).json()["paths"].items()
        for method in methods
    }
    real = {
        (route.path_format, method)
        for route in api.app.router.routes
        if isinstance(route, Route)
        for method in route.methods or ()
    }
    # The messages of proxies are no part of the API for users, as those of agents are not.
    assert documented == {row for row in real if row[0] not in PROXY_PATHS}
    assert len(real) > 40


@pytest.mark.slow
async def test_every_route_is_an_operation_a_socket_or_for_proxies(api: ApiHarness) -> None:
    others = [route for route in api.app.router.routes if not isinstance(route, OperationRoute)]
    assert [getattr(route, "name", "") for route in others] == [
        "serving_table",
        "serving_reports",
        "serving_keys",
        "sessions_exec",
        "sessions_ports",
    ]


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/api/v1/docs", "/", "/api/v1", "/api/v1/queues/"]
)
async def test_there_is_no_page_beside_the_api(api: ApiHarness, path: str) -> None:
    answer = await api.get(path, bare=True)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_path_without_this_method_lists_those_it_has(api: ApiHarness) -> None:
    answer = await api.call("PATCH", "/queues/default")
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["allow"] == "DELETE, GET, PUT"
    assert (await api.call("PUT", "/sessions")).headers["allow"] == "GET, POST"
    assert (await api.call("HEAD", "/whoami")).status_code == 405


@pytest.mark.slow
async def test_the_framework_gives_the_same_document(api: ApiHarness) -> None:
    assert api.app.openapi() == (await api.get("/openapi.json")).json()


async def test_a_route_is_built_by_its_first_request() -> None:
    async with api_harness() as fresh:
        routes = [route for route in fresh.app.router.routes if isinstance(route, OperationRoute)]
        assert [route.path for route in routes if "served" in vars(route)] == []
        assert (await fresh.get("/whoami")).status_code == 200
        assert [route.path for route in routes if "served" in vars(route)] == ["/api/v1/whoami"]

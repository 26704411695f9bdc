"""Requests for routes."""

from __future__ import annotations

from sokovan.sdk.core import route_calls
from sokovan.wire.api.routes import RouteBody


def test_a_route_is_that_of_its_deployment() -> None:
    assert route_calls.get("qwen").path == "/api/v1/deployments/qwen/route"
    call = route_calls.set_route("qwen", RouteBody(weights={"0": 2}))
    assert (call.method, call.path, call.body) == ("POST", "/api/v1/deployments/qwen/route", {"weights": {"0": 2}})
    assert route_calls.listing().path == "/api/v1/routes"
    assert route_calls.gateways().path == "/api/v1/gateways"

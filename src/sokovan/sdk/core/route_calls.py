"""Requests for routes of deployments."""

from __future__ import annotations

from sokovan.sdk.core.calls import PAGE_MAX, Call, api_path, query, sparse
from sokovan.sdk.core.deployment_calls import DEPLOYMENTS
from sokovan.wire.api.routes import GatewayList, RouteBody, RoutePage, RouteView


def listing(*, limit: int = PAGE_MAX, cursor: str | None = None) -> Call[RoutePage]:
    """Get one page of routes, newest first."""
    return Call(
        method="GET", path=api_path("routes"), answer=RoutePage, query=query({"limit": limit, "cursor": cursor})
    )


def get(ref: str) -> Call[RouteView]:
    """Get the route of a deployment."""
    return Call(method="GET", path=api_path(DEPLOYMENTS, ref, "route"), answer=RouteView)


def gateways() -> Call[GatewayList]:
    """Get the gateways that proxies have reported."""
    return Call(method="GET", path=api_path("gateways"), answer=GatewayList)


def set_route(ref: str, body: RouteBody) -> Call[RouteView]:
    """Change the route of a deployment; idempotent."""
    return Call(method="POST", path=api_path(DEPLOYMENTS, ref, "route"), answer=RouteView, body=sparse(body))

# Generated from sdk/aio/routes.py by `make docs`; do not edit.
"""Routes of deployments, for the sync client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sokovan.sdk.core import route_calls
from sokovan.sdk.core.paging import Paging
from sokovan.sdk.sync.connection import Connection
from sokovan.wire.api.routes import GatewayView, RouteBody, RouteExport, RouteView


class Routes:
    """Operations on routes; a `ref` is that of the deployment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Iterator[RouteView]:
        """List the routes of deployments that have not ended, newest first."""
        return self._connection.pages(Paging(route_calls.listing))

    def get(self, ref: str) -> RouteView:
        """The route of a deployment, with its endpoints."""
        return self._connection.send(route_calls.get(ref))

    def set(self, ref: str, body: RouteBody) -> RouteView:
        """Set weights, shares of canaries, names, routing or access; the rest stays."""
        return self._connection.send(route_calls.set_route(ref, body))

    def gateways(self) -> Sequence[GatewayView]:
        """The gateways that reported within a day; administrators only."""
        found = self._connection.send(route_calls.gateways())
        return found.items

    def export(self, *refs: str) -> RouteExport:
        """Gateways, and routes of these deployments or of all; administrators only.

        `sokovan.sdk.front_proxies` writes it as a configuration of HAProxy, Envoy or Traefik.
        """
        gateways = list(self.gateways())
        if refs:
            return RouteExport(gateways=gateways, routes=[self.get(ref) for ref in refs])
        routes = list(self.list())
        return RouteExport(gateways=gateways, routes=routes)

"""Routes of deployments, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.core import route_calls
from sokovan.sdk.core.paging import Paging
from sokovan.wire.api.routes import GatewayView, RouteBody, RouteExport, RouteView


class AsyncRoutes:
    """Operations on routes; a `ref` is that of the deployment."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def list(self) -> AsyncIterator[RouteView]:
        """List the routes of deployments that have not ended, newest first."""
        return self._connection.pages(Paging(route_calls.listing))

    async def get(self, ref: str) -> RouteView:
        """The route of a deployment, with its endpoints."""
        return await self._connection.send(route_calls.get(ref))

    async def set(self, ref: str, body: RouteBody) -> RouteView:
        """Set weights, shares of canaries, names, routing or access; the rest stays."""
        return await self._connection.send(route_calls.set_route(ref, body))

    async def gateways(self) -> Sequence[GatewayView]:
        """The gateways that reported within a day; administrators only."""
        found = await self._connection.send(route_calls.gateways())
        return found.items

    async def export(self, *refs: str) -> RouteExport:
        """Gateways, and routes of these deployments or of all; administrators only.

        `sokovan.sdk.front_proxies` writes it as a configuration of HAProxy, Envoy or Traefik.
        """
        gateways = list(await self.gateways())
        if refs:
            return RouteExport(gateways=gateways, routes=[await self.get(ref) for ref in refs])
        routes = [one async for one in self.list()]  # sync: routes = list(self.list())
        return RouteExport(gateways=gateways, routes=routes)

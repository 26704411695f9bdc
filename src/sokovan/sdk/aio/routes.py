"""Routes of deployments, for the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sokovan.sdk.aio.connection import AsyncConnection
from sokovan.sdk.core import route_calls
from sokovan.sdk.core.paging import Paging
from sokovan.wire.api.routes import RouteBody, RouteView


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

"""Routes of deployments: list, show, set; and the gateways that serve them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named, visible_deployments
from sokovan.api.access.lookup import require
from sokovan.api.context import ApiContext
from sokovan.api.mapping.routes import gateway_views, route_changes, route_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, cursor_of, number_of
from sokovan.api.routes.parameters import Ref
from sokovan.domain.owners.access import Action, ObjectKind
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.orchestrator.deployments.serving_state import PROXY_TTL_MS
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.routes import GatewayList, RouteBody, RoutePage, RouteView

# A gateway that is away for longer is not listed any more.
GATEWAYS_KEPT_MS = 24 * 3_600_000


class ServedRouteRoutes:
    """Routes as proxies see them, and what their owners set."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.deployments
        self._url = dependencies.gateway_url

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, one = "routes", "/api/v1/deployments/{ref}/route"
        return [
            ApiOperation(
                method="GET", path="/api/v1/routes", endpoint=self.list, tag=tag, answer=RoutePage, fails=(404,)
            ),
            ApiOperation(method="GET", path="/api/v1/gateways", endpoint=self.gateways, tag=tag, answer=GatewayList),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=RouteView, fails=(404, 409)),
            ApiOperation(
                method="POST", path=one, endpoint=self.set, tag=tag, body=RouteBody, answer=RouteView, fails=(404, 409)
            ),
        ]  # fmt: skip

    async def list(self, request: Request, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the routes of deployments that have not ended, newest first."""
        after = number_of(cursor)
        scope = visible_deployments(principal_of(request.scope), DeploymentFilter(live=True))
        if scope is None:
            return json_response(RoutePage(items=[]))

        async def work(unit: UnitOfWork) -> RoutePage:
            found = await unit.deployments.page(scope, limit=limit + 1, after=after)
            page = found[:limit]
            return RoutePage(
                items=[await self._view(unit, one) for one in page],
                next=cursor_of(page[-1].place) if len(found) > limit else None,
            )

        return json_response(await self._store.read(work))

    async def gateways(self, request: Request) -> Response:
        """List the gateways that reported within a day; administrators only."""
        require(principal_of(request.scope), Action.SEE, ObjectKind.SYSTEM, name="gateways")

        async def work(unit: UnitOfWork) -> GatewayList:
            epoch, version = await unit.routes.version()
            proxies = await unit.proxies.live(since_ms=unit.now_ms - GATEWAYS_KEPT_MS)
            reporting = {one.proxy_id for one in proxies if one.reported_ms >= unit.now_ms - PROXY_TTL_MS}
            return GatewayList(items=gateway_views(proxies, reporting, epoch=epoch, version=version))

        return json_response(await self._store.read(work))

    async def show(self, request: Request, ref: Ref) -> Response:
        """Show the route of a deployment with its endpoints."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> RouteView:
            return await self._view(unit, await deployment_named(unit, ref, principal))

        return json_response(await self._store.read(work))

    async def set(self, request: Request, ref: Ref) -> Response:
        """Set weights, shares of canaries, names, routing or access; the rest stays."""
        principal, changes = principal_of(request.scope), route_changes(body_of(request, RouteBody))
        record = await self._store.read(lambda unit: deployment_named(unit, ref, principal))
        changed = await self._controller.configure(record.deployment_id, changes, principal.caller)
        return json_response(await self._store.read(lambda unit: self._view(unit, changed)))

    async def _view(self, unit: UnitOfWork, deployment: DeploymentRecord) -> RouteView:
        epoch, _ = await unit.routes.version()
        return route_view(
            deployment,
            await unit.routes.of_deployment(deployment.deployment_id),
            replicas=await unit.replicas.live(deployment.deployment_id),
            proxies=await unit.proxies.live(since_ms=unit.now_ms - PROXY_TTL_MS),
            epoch=epoch,
            url=self._url,
        )

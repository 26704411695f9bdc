"""Endpoint tokens: create, list, revoke."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.context import ApiContext
from sokovan.api.mapping.deployments import token_spec, token_view
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import PAGE_DEFAULT, Cursor, Limit, page_by_name
from sokovan.api.routes.parameters import Name, Ref
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import EndpointTokenId
from sokovan.domain.serving.budget import month_of
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.deployments import (
    EndpointTokenBody,
    EndpointTokenPage,
    EndpointTokenView,
    NewEndpointTokenView,
)

NEW = EndpointTokenId("new")


class EndpointTokenRoutes:
    """Tokens without secrets; a token is shown once, on creation."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.routes

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, every = "tokens", "/api/v1/deployments/{ref}/tokens"
        return [
            ApiOperation(
                method="POST", path=every, endpoint=self.create, tag=tag,
                body=EndpointTokenBody, answer=NewEndpointTokenView, status=201, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path=every, endpoint=self.list, tag=tag, answer=EndpointTokenPage, fails=(404, 409)
            ),
            ApiOperation(
                method="DELETE", path=f"{every}/{{token}}", endpoint=self.revoke, tag=tag, status=204, fails=(404, 409)
            ),
        ]  # fmt: skip

    async def create(self, request: Request, ref: Ref) -> Response:
        """Create a token for clients of a deployment; its secret is in this answer only."""
        deployment, body = await self._deployment(request, ref), body_of(request, EndpointTokenBody)
        deployment_id = deployment.deployment_id
        spec = token_spec(body, NEW, deployment_id)
        _require_models_of(deployment.spec, spec.models)
        if spec.expires_ms is not None and spec.expires_ms <= await self._store.read(_now_ms):
            raise InvalidSpec(what="token", field="expires_at", value=body.expires_at, problem="is in the past")
        created = await self._controller.create_token(spec, principal_of(request.scope).caller)
        view = NewEndpointTokenView(id=created.record.spec.token_id, deployment=deployment_id, token=created.token)
        return json_response(view, status=201)

    async def list(self, request: Request, ref: Ref, limit: Limit = PAGE_DEFAULT, cursor: Cursor = None) -> Response:
        """List the tokens of a deployment that are not revoked."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> list[EndpointTokenView]:
            record = await deployment_named(unit, ref, principal)
            month, key = month_of(unit.now_ms // 60_000), record.deployment_id
            used = await unit.endpoint_tokens.used(key, since_minute=month.start)
            found = await unit.endpoint_tokens.of_deployment(key)
            return [token_view(one, month, used=used.get(one.spec.token_id, 0)) for one in found]

        page, following = page_by_name(await self._store.read(work), lambda one: one.id, limit=limit, cursor=cursor)
        return json_response(EndpointTokenPage(items=page, next=following))

    async def revoke(self, request: Request, ref: Ref, token: Name) -> Response:
        """Revoke a token; proxies refuse it within seconds."""
        deployment = await self._deployment(request, ref)
        await self._controller.revoke_token(deployment.deployment_id, token, principal_of(request.scope).caller)
        return Response(status_code=204)

    async def _deployment(self, request: Request, ref: str) -> DeploymentRecord:
        principal = principal_of(request.scope)
        return await self._store.read(lambda unit: deployment_named(unit, ref, principal))


def _require_models_of(deployment: DeploymentSpec, models: Sequence[str]) -> None:
    """Refuse a token for a model that the deployment does not have: it could never be used."""
    for name in models:
        if name not in deployment.served_names:
            problem = (
                f"is no model of deployment {deployment.name}, which answers to {', '.join(deployment.served_names)}"
            )
            raise InvalidSpec(what="token", field="models", value=name, problem=problem)


async def _now_ms(unit: UnitOfWork) -> int:
    return unit.now_ms

"""Rollouts of deployments: update, promote, roll back."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.context import ApiContext
from sokovan.api.mapping.deployments import revision_spec, rollout_policy
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.routes.parameters import Ref
from sokovan.api.routes.serving.deployment_views import DeploymentViews
from sokovan.domain.ids import DeploymentId
from sokovan.wire.api.deployments import DeploymentView, RollbackBody, UpdateBody


class RolloutRoutes:
    """Routes that change the revision of a deployment."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._controller = dependencies.store, dependencies.deployments
        self._views = DeploymentViews(dependencies.gateway_url)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, one = "deployments", "/api/v1/deployments/{ref}"
        return [
            ApiOperation(
                method="POST", path=f"{one}/update", endpoint=self.update, tag=tag,
                body=UpdateBody, answer=DeploymentView, status=202, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/promote", endpoint=self.promote, tag=tag,
                answer=DeploymentView, status=202, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/rollback", endpoint=self.roll_back, tag=tag,
                body=RollbackBody, answer=DeploymentView, status=202, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def update(self, request: Request, ref: Ref) -> Response:
        """Add a revision and begin the rollout to it; 409 while one is under way."""
        body, caller = body_of(request, UpdateBody), principal_of(request.scope).caller
        deployment_id, revision = await self._id(request, ref), revision_spec(body.revision)
        policy = None if body.rollout is None else rollout_policy(body.rollout)
        await self._controller.update(deployment_id, revision, caller, rollout=policy, secrets=body.revision.secrets)
        return json_response(await self._views.read(self._store, request, deployment_id), status=202)

    async def promote(self, request: Request, ref: Ref) -> Response:
        """Promote a canary to the whole deployment."""
        deployment_id = await self._id(request, ref)
        await self._controller.promote(deployment_id, principal_of(request.scope).caller)
        return json_response(await self._views.read(self._store, request, deployment_id), status=202)

    async def roll_back(self, request: Request, ref: Ref) -> Response:
        """End the rollout under way; without one, return to an earlier revision."""
        deployment_id, body = await self._id(request, ref), body_of(request, RollbackBody)
        await self._controller.roll_back(deployment_id, principal_of(request.scope).caller, to=body.revision)
        return json_response(await self._views.read(self._store, request, deployment_id), status=202)

    async def _id(self, request: Request, ref: str) -> DeploymentId:
        principal = principal_of(request.scope)
        return (await self._store.read(lambda unit: deployment_named(unit, ref, principal))).deployment_id

"""Deployments: create, apply, list, show, scale, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named, visible_deployments
from sokovan.api.context import ApiContext
from sokovan.api.mapping.deployments import (
    deployment_spec,
    revision_spec,
    scaling_policy,
)
from sokovan.api.operations import ApiOperation, body_of, json_response
from sokovan.api.pagination import CURSOR_MAX, PAGE_DEFAULT, PAGE_MAX, cursor_of, number_of
from sokovan.api.routes.parameters import IdempotencyKey, Ref, name_field
from sokovan.api.routes.serving.deployment_views import DeploymentViews
from sokovan.domain.ids import DEFAULT_QUEUE, DeploymentId
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.orchestrator.deployments.controller import Applied
from sokovan.ports.repositories.serving import DeploymentFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.deployments import (
    AppliedDeploymentView,
    DeploymentBody,
    DeploymentPage,
    DeploymentView,
    ScaleBody,
)

NEW = DeploymentId("new")


class DeploymentQuery(BaseModel):
    """The filters and the page of a listing."""

    model_config = ConfigDict(extra="forbid")

    user: str | None = name_field("Of this user.")
    group: str | None = name_field("Of this group.")
    mine: bool = Field(default=False, description="Only the caller's own deployments.")
    all: bool = Field(default=False, description="Also those that have ended.")
    limit: int = Field(default=PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="The maximum number of items.")
    cursor: str | None = Field(default=None, max_length=CURSOR_MAX, description="`next` of the previous page.")


class DeploymentRoutes:
    """Routes that create, show, scale and end deployments."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._sessions = dependencies.store, dependencies.controller
        self._controller = dependencies.deployments
        self._views = DeploymentViews(dependencies.gateway_url)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        tag, every = "deployments", "/api/v1/deployments"
        one = f"{every}/{{ref}}"
        return [
            ApiOperation(
                method="POST", path=every, endpoint=self.create, tag=tag,
                body=DeploymentBody, answer=DeploymentView, status=201, also={200: DeploymentView}, fails=(404, 409),
            ),
            ApiOperation(method="GET", path=every, endpoint=self.list, tag=tag, answer=DeploymentPage, fails=(404,)),
            ApiOperation(
                method="POST", path=f"{every}/apply", endpoint=self.apply, tag=tag,
                body=DeploymentBody, answer=AppliedDeploymentView, also={201: AppliedDeploymentView}, fails=(404, 409),
            ),
            ApiOperation(method="GET", path=one, endpoint=self.show, tag=tag, answer=DeploymentView, fails=(404, 409)),
            ApiOperation(
                method="DELETE", path=one, endpoint=self.end, tag=tag,
                answer=DeploymentView, status=202, fails=(404, 409),
            ),
            ApiOperation(
                method="POST", path=f"{one}/scale", endpoint=self.scale, tag=tag,
                body=ScaleBody, answer=DeploymentView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def create(self, request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Create a deployment; its replicas start asynchronously.

        The same `Idempotency-Key` with the same body returns 200 and the existing deployment;
        with another body, 422.
        """
        body, caller = body_of(request, DeploymentBody), principal_of(request.scope).caller
        owner = replace(caller.owner, group=body.group or caller.owner.group)
        spec = deployment_spec(body, NEW, owner, queue=DEFAULT_QUEUE)
        revision = revision_spec(body.revision)
        created = await self._controller.create(
            spec, revision, caller, key=idempotency_key, secrets=body.revision.secrets
        )
        view = await self._store.read(lambda unit: self._views.of(unit, created.deployment))
        headers = {"Location": f"/api/v1/deployments/{view.id}"}
        return json_response(view, status=201 if created.fresh else 200, headers=headers)

    async def apply(self, request: Request) -> Response:
        """Create the deployment of this name, or make it what the body says; idempotent.

        A revision that differs begins a rollout; 409 while another one is under way.
        """
        body, caller = body_of(request, DeploymentBody), principal_of(request.scope).caller
        owner = replace(caller.owner, group=body.group or caller.owner.group)
        spec = deployment_spec(body, NEW, owner, queue=DEFAULT_QUEUE)
        secrets, revision = body.revision.secrets, revision_spec(body.revision)
        applied = await self._controller.apply(spec, revision, caller, secrets=secrets)
        view = await self._store.read(lambda unit: self._views.of(unit, applied.deployment))
        answer = AppliedDeploymentView(outcome=applied.outcome.value, deployment=view)
        return json_response(answer, status=201 if applied.outcome is Applied.CREATED else 200)

    async def list(self, request: Request, query: Annotated[DeploymentQuery, Query()]) -> Response:
        """List deployments, newest first; by default those that have not ended."""
        principal, after = principal_of(request.scope), number_of(query.cursor)
        user = principal.user if query.mine else query.user or ""
        wanted = DeploymentFilter(user=user, group=query.group or "", live=not query.all)
        scope = visible_deployments(principal, wanted)
        if scope is None or (query.mine and query.user not in {None, principal.user}):
            return json_response(DeploymentPage(items=[]))

        async def work(unit: UnitOfWork) -> DeploymentPage:
            found = await unit.deployments.page(scope, limit=query.limit + 1, after=after)
            page, proxies = found[: query.limit], await self._views.proxies(unit)
            return DeploymentPage(
                items=[await self._views.of(unit, one, proxies) for one in page],
                next=cursor_of(page[-1].place) if len(found) > query.limit else None,
            )

        return json_response(await self._store.read(work))

    async def show(self, request: Request, ref: Ref) -> Response:
        """Show a deployment with its replicas."""
        return json_response(await self._views.read(self._store, request, ref))

    async def end(self, request: Request, ref: Ref) -> Response:
        """Delete a deployment; its replicas end after the requests they have."""
        record = await self._found(request, ref)
        ended = await self._controller.delete(record.deployment_id, principal_of(request.scope).caller)
        view = await self._store.read(lambda unit: self._views.of(unit, ended))
        return json_response(view, status=202)

    async def scale(self, request: Request, ref: Ref) -> Response:
        """Set the bounds of the number of replicas, and how it follows demand."""
        record, body = await self._found(request, ref), body_of(request, ScaleBody)
        changes: dict[str, Any] = {
            "replicas_min": body.replicas_min,
            "replicas_max": body.replicas_min if body.replicas_max is None else body.replicas_max,
        }
        if body.scaling is not None:
            changes["scaling"] = scaling_policy(body.scaling)
        scaled = await self._controller.configure(record.deployment_id, changes, principal_of(request.scope).caller)
        return json_response(await self._store.read(lambda unit: self._views.of(unit, scaled)))

    async def _found(self, request: Request, ref: str) -> DeploymentRecord:
        principal = principal_of(request.scope)
        return await self._store.read(lambda unit: deployment_named(unit, ref, principal))

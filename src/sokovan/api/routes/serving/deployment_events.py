"""Events of deployments."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.context import ApiContext
from sokovan.api.mapping.sessions import history_line
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.routes.parameters import Ref
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.deployments import DeploymentEventsView

EVENTS_MAX = 1_000


class DeploymentEventRoutes:
    """The route of what happened to a deployment."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/deployments/{ref}/events", endpoint=self.events, tag="deployments",
                answer=DeploymentEventsView, fails=(404, 409),
            ),
        ]  # fmt: skip

    async def events(
        self,
        request: Request,
        ref: Ref,
        limit: Annotated[int, Query(ge=1, le=EVENTS_MAX, description="The maximum number of events.")] = 200,
    ) -> Response:
        """Show the last events of a deployment, its replicas, rollouts and route."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> DeploymentEventsView:
            record = await deployment_named(unit, ref, principal)
            found = await unit.deployments.events(record.deployment_id, limit=limit)
            lines = [history_line(subject, entry) for subject, entry in found]
            return DeploymentEventsView(deployment=record.deployment_id, lines=lines)

        return json_response(await self._store.read(work))

"""Views of deployments, read with their revision, replicas and rollout."""

from __future__ import annotations

from starlette.requests import Request

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.deployments import deployment_named
from sokovan.api.mapping.deployments import deployment_view
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.api.deployments import DeploymentView


class DeploymentViews:
    """Reads views; `url` is the gateway's, empty where there is none."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def of(self, unit: UnitOfWork, record: DeploymentRecord) -> DeploymentView:
        """The view of a deployment."""
        deployment_id = record.deployment_id
        rollouts = await unit.rollouts.live(deployment_id)
        return deployment_view(
            record,
            await unit.deployments.revision(deployment_id, record.revision),
            replicas=await unit.replicas.live(deployment_id),
            rollout=rollouts[0] if rollouts else None,
            url=self._url,
        )

    async def read(self, store: Store, request: Request, ref: str) -> DeploymentView:
        """The view of the deployment that a reference means to the caller."""
        principal = principal_of(request.scope)

        async def work(unit: UnitOfWork) -> DeploymentView:
            return await self.of(unit, await deployment_named(unit, ref, principal))

        return await store.read(work)

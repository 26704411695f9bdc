"""Begins deployments: gives them a route, and lets their replicas be created."""

from __future__ import annotations

from sokovan.domain.ids import RouteId
from sokovan.domain.lifecycle.deployment import DeploymentStatus, DeploymentTrigger
from sokovan.domain.serving.records import DeploymentRecord
from sokovan.domain.serving.route import RouteSpec
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork


class InitialisingHandler:
    """PENDING to PROVISIONING, with the route of the deployment."""

    name = "initialising"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer

    async def handle(self, cycle: ServingState) -> bool:
        """Begin all pending deployments."""
        pending = [one for one in cycle.deployments.values() if one.status is DeploymentStatus.PENDING]
        return await self._writer.each(self.name, pending, self._begin)

    def clear(self) -> None:
        """Nothing is kept."""

    async def _begin(self, deployment: DeploymentRecord) -> bool:
        change = self._writer.change("begun", f"{deployment.replicas_desired} replicas are wanted")

        async def work(unit: UnitOfWork) -> bool:
            deployment_id = deployment.deployment_id
            if await unit.routes.of_deployment(deployment_id) is None:
                await unit.routes.create(RouteSpec(RouteId(f"route-{deployment_id}"), deployment_id), change)
            await unit.deployments.move(deployment, DeploymentTrigger.REPLICAS_REQUESTED, change)
            return True

        return await self._writer.run(work)

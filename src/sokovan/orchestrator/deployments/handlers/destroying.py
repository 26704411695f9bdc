"""Ends deployments: drains their replicas, removes their route, forces the rest."""

from __future__ import annotations

from sokovan.domain.lifecycle.deployment import DEPLOYMENT, DeploymentStatus, DeploymentTrigger
from sokovan.domain.lifecycle.rollout import RolloutStatus, RolloutTrigger
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import Change
from sokovan.domain.serving.records import DeploymentRecord, RolloutRecord
from sokovan.orchestrator.deployments.replica_moves import end
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

DELETED, FORCED = "deployment-deleted", "deployment-forced"
FORCE_AFTER_MS = (DEPLOYMENT.deadlines[DeploymentStatus.DESTROYING].seconds or 900) * 1000


class DestroyingHandler:
    """DESTROYING to TERMINATED, once nothing of the deployment is left."""

    name = "destroying"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer

    async def handle(self, cycle: ServingState) -> bool:
        """End all deployments that are being destroyed by one step."""
        destroying = [one for one in cycle.deployments.values() if one.status is DeploymentStatus.DESTROYING]
        return await self._writer.each(self.name, destroying, lambda one: self._end(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _end(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        if state.now_ms - deployment.since_ms >= FORCE_AFTER_MS:
            return await self._force(state, deployment)
        moved = False
        for replica in state.replicas_of(deployment.deployment_id):
            moved |= await end(self._writer, replica, DELETED, "its deployment is being deleted")
        route = state.routes.get(deployment.deployment_id)
        if not state.replicas_of(deployment.deployment_id) and route is None:
            return await self._move(state, deployment, DeploymentTrigger.REPLICAS_GONE, DELETED)
        if route is not None and route.status is not RouteStatus.TERMINATING:
            change = self._writer.change(DELETED)

            async def work(unit: UnitOfWork) -> bool:
                await unit.routes.move(route, RouteTrigger.DELETE_REQUESTED, change)
                return True

            moved |= await self._writer.run(work)
        return moved

    async def _force(self, state: ServingState, deployment: DeploymentRecord) -> bool:
        """End it without waiting; its sessions free their slots by themselves."""
        change = self._writer.change(FORCED, "its replicas did not end in time")
        sessions = [one.session_id for one in state.replicas_of(deployment.deployment_id) if one.session_id is not None]
        await self._writer.run(lambda unit: unit.sessions.set_goals(sessions, Goal.FORCE, change))
        return await self._move(state, deployment, DeploymentTrigger.FORCED, FORCED)

    async def _move(
        self, state: ServingState, deployment: DeploymentRecord, trigger: DeploymentTrigger, code: str
    ) -> bool:
        change, rollout = self._writer.change(code), state.rollouts.get(deployment.deployment_id)

        async def work(unit: UnitOfWork) -> bool:
            for token in await unit.endpoint_tokens.of_deployment(deployment.deployment_id):
                await unit.endpoint_tokens.revoke(token.spec.token_id)
            if rollout is not None:
                await _end_rollout(unit, rollout, change)
            await unit.deployments.move(deployment, trigger, change)
            return True

        return await self._writer.run(work)


async def _end_rollout(unit: UnitOfWork, rollout: RolloutRecord, change: Change) -> None:
    """End a rollout that was under way: nothing of either revision is left to go back to."""
    if rollout.status is not RolloutStatus.ROLLING_BACK:
        rollout = await unit.rollouts.move(rollout, RolloutTrigger.FAILED, change)
    await unit.rollouts.move(rollout, RolloutTrigger.RESTORED, change)

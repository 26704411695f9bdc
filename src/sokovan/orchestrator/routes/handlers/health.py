"""Applies the health verdicts of proxies to replicas and routes."""

from __future__ import annotations

from sokovan.domain.lifecycle.replica import ReplicaStatus, ReplicaTrigger
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.serving.records import EndpointObservation, ReplicaRecord, RouteRecord
from sokovan.orchestrator.deployments.replica_moves import ReplicaMove, apply
from sokovan.orchestrator.deployments.replica_targets import active
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

CHECKS_PASSED, CHECKS_FAILED, STALLED = "checks-passed", "checks-failed", "stalled"
ALL_UNHEALTHY = "no-healthy-endpoint"


class HealthHandler:
    """A replica is healthy if any proxy that reported lately says so.

    Proxies count successes and failures; without a proxy nothing changes.
    """

    name = "health"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer

    async def handle(self, cycle: ServingState) -> bool:
        """Apply all verdicts."""
        replicas = [one for some in cycle.replicas.values() for one in some]

        async def judge(replica: ReplicaRecord) -> bool:
            move = health_move(replica, cycle.reports_on(replica))
            return move is not None and await apply(self._writer, replica, move)

        moved = await self._writer.each(self.name, replicas, judge)
        if moved:
            return True
        return await self._writer.each(self.name, cycle.routes.values(), lambda one: self._route(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _route(self, state: ServingState, route: RouteRecord) -> bool:
        """RUNNING and ERROR follow whether any endpoint serves, if any is desired."""
        deployment = state.deployments.get(route.spec.deployment_id)
        serves = bool(active(state.replicas_of(route.spec.deployment_id)))
        wanted = deployment is not None and deployment.replicas_desired > 0
        if route.status is RouteStatus.RUNNING and not serves and wanted:
            trigger, change = RouteTrigger.HEALTH_FAILED, self._writer.change(ALL_UNHEALTHY)
        elif route.status is RouteStatus.ERROR and serves:
            trigger, change = RouteTrigger.ENDPOINT_HEALTHY, self._writer.change(CHECKS_PASSED)
        else:
            return False

        async def work(unit: UnitOfWork) -> bool:
            await unit.routes.move(route, trigger, change)
            return True

        return await self._writer.run(work)


def health_move(replica: ReplicaRecord, reports: list[EndpointObservation]) -> ReplicaMove | None:
    """The transition that the verdicts of proxies cause; None if there is none."""
    healthy = any(one.healthy and not one.stalled for one in reports)
    unhealthy = not healthy and any(one.healthy is False or one.stalled for one in reports)
    if healthy and replica.status in {ReplicaStatus.WARMING, ReplicaStatus.UNHEALTHY}:
        return ReplicaMove(ReplicaTrigger.CHECKS_PASSED, CHECKS_PASSED)
    if unhealthy and replica.status is ReplicaStatus.ACTIVE:
        stalled = any(one.stalled for one in reports)
        errors = [one.error for one in reports if one.error]
        detail = errors[0] if errors else "no byte came for a minute" if stalled else "its checks fail"
        return ReplicaMove(ReplicaTrigger.CHECKS_FAILED, STALLED if stalled else CHECKS_FAILED, detail)
    return None

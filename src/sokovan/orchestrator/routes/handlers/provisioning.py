"""Configures new routes, and lets them serve once an endpoint is healthy."""

from __future__ import annotations

from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.route import ROUTE, RouteStatus, RouteTrigger
from sokovan.domain.serving.records import RouteRecord
from sokovan.orchestrator.deployments.replica_targets import active
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.routes.table_entries import Definitions, Tickets, entry_text, route_entry
from sokovan.ports.storage import UnitOfWork

REFUSED, NO_ENDPOINT = "configuration-refused", "no-healthy-endpoint"
FAIL_AFTER_MS = (ROUTE.deadlines[RouteStatus.PROVISIONING].seconds or 3600) * 1000


class ProvisioningHandler:
    """PENDING to PROVISIONING, and from there to RUNNING or ERROR."""

    name = "provisioning"

    def __init__(self, writer: ServingWriter, define: Definitions, tickets: Tickets) -> None:
        self._writer, self._define, self._tickets = writer, define, tickets

    async def handle(self, cycle: ServingState) -> bool:
        """Advance all new routes."""
        new = [one for one in cycle.routes.values() if one.status in {RouteStatus.PENDING, RouteStatus.PROVISIONING}]
        return await self._writer.each(self.name, new, lambda one: self._advance(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _advance(self, state: ServingState, route: RouteRecord) -> bool:
        if route.status is RouteStatus.PENDING:
            return await self._configure(state, route)
        serving = active(state.replicas_of(route.spec.deployment_id))
        if serving:
            return await self._move(route, RouteTrigger.ENDPOINT_HEALTHY, "", f"{len(serving)} endpoints are healthy")
        if state.now_ms - route.since_ms < FAIL_AFTER_MS or not _wants_replicas(state, route):
            return False
        return await self._move(route, RouteTrigger.HEALTH_FAILED, NO_ENDPOINT, "no endpoint became healthy in time")

    async def _configure(self, state: ServingState, route: RouteRecord) -> bool:
        """Publish the first entry, without endpoints, so that requests wait or are refused."""
        deployment = state.deployments.get(route.spec.deployment_id)
        if deployment is None:
            return False
        try:
            entry = entry_text(route_entry(state, deployment, self._define, self._tickets))
        except SokovanError as error:
            detail = f"{error.message} [{error.code}]"
            return await self._move(route, RouteTrigger.CONFIGURATION_REFUSED, REFUSED, detail)
        change = self._writer.change()

        async def work(unit: UnitOfWork) -> bool:
            configured = await unit.routes.move(route, RouteTrigger.CONFIGURED, change)
            await unit.routes.publish(configured, entry)
            return True

        return await self._writer.run(work)

    async def _move(self, route: RouteRecord, trigger: RouteTrigger, code: str, detail: str) -> bool:
        change = self._writer.change(code, detail)

        async def work(unit: UnitOfWork) -> bool:
            await unit.routes.move(route, trigger, change)
            return True

        return await self._writer.run(work)


def _wants_replicas(state: ServingState, route: RouteRecord) -> bool:
    deployment = state.deployments.get(route.spec.deployment_id)
    return deployment is not None and deployment.replicas_desired > 0

"""Removes the routes of deployments that end."""

from __future__ import annotations

from sokovan.domain.lifecycle.route import ROUTE, RouteStatus, RouteTrigger
from sokovan.domain.serving.records import RouteRecord
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.ports.storage import UnitOfWork

REMOVED, FORCED = "route-removed", "route-removal-forced"
FORCE_AFTER_MS = (ROUTE.deadlines[RouteStatus.TERMINATING].seconds or 120) * 1000


class TerminatingHandler:
    """TERMINATING to TERMINATED: the entry is removed after the replicas."""

    name = "terminating"

    def __init__(self, writer: ServingWriter) -> None:
        self._writer = writer

    async def handle(self, cycle: ServingState) -> bool:
        """Remove all routes that end and have no replica left."""
        ending = [
            one
            for key, one in cycle.routes.items()
            if one.status is RouteStatus.TERMINATING and not cycle.replicas_of(key)
        ]
        return await self._writer.each(self.name, ending, lambda one: self._remove(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _remove(self, state: ServingState, route: RouteRecord) -> bool:
        if route.entry:
            await self._writer.run(lambda unit: unit.routes.publish(route, ""))
            return True
        if state.is_acknowledged(route.table_version):
            trigger, change = RouteTrigger.CONFIGURATION_REMOVED, self._writer.change(REMOVED)
        elif state.now_ms - route.since_ms >= FORCE_AFTER_MS:
            trigger, change = RouteTrigger.FORCED, self._writer.change(FORCED, "a proxy did not acknowledge it")
        else:
            return False

        async def work(unit: UnitOfWork) -> bool:
            await unit.routes.move(route, trigger, change)
            return True

        return await self._writer.run(work)

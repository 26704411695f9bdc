"""Publishes the entries of routes to proxies when they change."""

from __future__ import annotations

from sokovan.domain.errors import SokovanError
from sokovan.domain.lifecycle.route import RouteStatus, RouteTrigger
from sokovan.domain.serving.records import RouteRecord
from sokovan.orchestrator.deployments.serving_coordinator import ServingWriter
from sokovan.orchestrator.deployments.serving_state import ServingState
from sokovan.orchestrator.routes.table_entries import Definitions, Tickets, entry_of, entry_text, route_entry
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.serving.route_table import RouteEntry

ENDPOINTS_CHANGED = "endpoints-changed"


class RunningHandler:
    """Compares each entry with the published one; a difference gets the next version."""

    name = "running"

    def __init__(self, writer: ServingWriter, define: Definitions, tickets: Tickets) -> None:
        self._writer, self._define, self._tickets = writer, define, tickets

    async def handle(self, cycle: ServingState) -> bool:
        """Publish all entries that have changed."""
        # The route of a deployment that ends is published until its replicas have drained.
        # One that could not be configured has no entry; it is tried again.
        routes = [one for one in cycle.routes.values() if one.entry or one.status is RouteStatus.ERROR]
        return await self._writer.each(self.name, routes, lambda one: self._publish(cycle, one))

    def clear(self) -> None:
        """Nothing is kept."""

    async def _publish(self, state: ServingState, route: RouteRecord) -> bool:
        deployment = state.deployments.get(route.spec.deployment_id)
        if deployment is None:
            return False
        try:
            entry = route_entry(state, deployment, self._define, self._tickets)
        except SokovanError:
            if route.entry:
                raise
            return False  # the history of the route says why
        text = entry_text(entry)
        if text == route.entry:
            return False
        before, after = _endpoints(entry_of(route.entry)) if route.entry else set(), _endpoints(entry)
        is_move = route.status is RouteStatus.RUNNING and before != after
        change = self._writer.change(ENDPOINTS_CHANGED, f"{len(before)} to {len(after)} endpoints")

        async def work(unit: UnitOfWork) -> bool:
            moved = await unit.routes.move(route, RouteTrigger.ENDPOINTS_CHANGED, change) if is_move else route
            await unit.routes.publish(moved, text)
            return True

        return await self._writer.run(work)


def _endpoints(entry: RouteEntry) -> set[str]:
    return {one.endpoint_id for one in entry.endpoints}

"""The coordinator of routes: the table of proxies, health, drains."""

from __future__ import annotations

from sokovan.orchestrator.coordinator import ROUTES_HINT
from sokovan.orchestrator.deployments.replica_requests import ReplicaRequests
from sokovan.orchestrator.deployments.serving_coordinator import ServingCoordinator, ServingDependencies
from sokovan.orchestrator.routes.handlers.draining import DrainingHandler
from sokovan.orchestrator.routes.handlers.health import HealthHandler
from sokovan.orchestrator.routes.handlers.provisioning import ProvisioningHandler
from sokovan.orchestrator.routes.handlers.running import RunningHandler
from sokovan.orchestrator.routes.handlers.sweep import SweepHandler
from sokovan.orchestrator.routes.handlers.terminating import TerminatingHandler
from sokovan.orchestrator.routes.port_ownership import PortOwners
from sokovan.orchestrator.routes.table_entries import Tickets

LEASE = "routes"


class RouteCoordinator(ServingCoordinator):
    """Keeps the table of proxies true; only the manager with the lease does."""

    def __init__(
        self,
        dependencies: ServingDependencies,
        requests: ReplicaRequests,
        *,
        holder: str,
        owners: PortOwners,
        tickets: Tickets = lambda _endpoint: "",
    ) -> None:
        super().__init__(LEASE, ROUTES_HINT, dependencies, holder=holder)
        writer = self.writer

        define = requests.definition_of
        self.handlers = (
            HealthHandler(writer, owners),
            ProvisioningHandler(writer, define, tickets),
            RunningHandler(writer, define, tickets),
            DrainingHandler(writer),
            TerminatingHandler(writer),
            SweepHandler(writer),
        )

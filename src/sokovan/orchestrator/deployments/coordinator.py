"""The coordinator of deployments: replicas, scaling, rollouts, recovery."""

from __future__ import annotations

from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT
from sokovan.orchestrator.deployments.handlers.deadlines import DeadlineHandler
from sokovan.orchestrator.deployments.handlers.destroying import DestroyingHandler
from sokovan.orchestrator.deployments.handlers.initialising import InitialisingHandler
from sokovan.orchestrator.deployments.handlers.recovery import RecoveryHandler
from sokovan.orchestrator.deployments.handlers.replica import ReplicaDependencies, ReplicaHandler
from sokovan.orchestrator.deployments.handlers.rollout import RolloutHandler
from sokovan.orchestrator.deployments.handlers.scaling import ScalingHandler
from sokovan.orchestrator.deployments.serving_coordinator import ServingCoordinator, ServingDependencies

LEASE = "deployments"


class DeploymentCoordinator(ServingCoordinator):
    """Drives deployments towards their goal; only the manager with the lease does."""

    def __init__(self, dependencies: ServingDependencies, replicas: ReplicaDependencies, *, holder: str) -> None:
        super().__init__(LEASE, DEPLOYMENTS_HINT, dependencies, holder=holder)
        writer, controller, requests = self.writer, replicas.controller, replicas.requests
        self.handlers = (
            InitialisingHandler(writer),
            ScalingHandler(writer),
            RolloutHandler(writer, controller, requests),
            RecoveryHandler(writer),
            ReplicaHandler(writer, replicas),
            DeadlineHandler(writer),
            DestroyingHandler(writer),
        )

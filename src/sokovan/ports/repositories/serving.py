"""Repositories of deployments and routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sokovan.domain.ids import DeploymentId, RouteId
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.domain.records import Change, DeploymentRecord, HistoryEntry, RouteRecord
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.route import Endpoint, RouteSpec


class DeploymentRepository(Protocol):
    """Deployments. Scaling writes the desired number, never a difference."""

    async def create(self, spec: DeploymentSpec, change: Change) -> DeploymentRecord:
        """Store a new deployment, PENDING. Raises Conflict, ObjectNotFound."""

    async def get(self, deployment_id: DeploymentId) -> DeploymentRecord:
        """One deployment. Raises ObjectNotFound."""

    async def all(self) -> Sequence[DeploymentRecord]:
        """Every deployment that has not ended, by id."""

    async def scale(self, deployment: DeploymentRecord, replicas: int, change: Change) -> DeploymentRecord:
        """Set the desired replicas. Raises StaleVersion, IllegalTransition."""

    async def move(self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change) -> DeploymentRecord:
        """Apply a transition.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def history(self, deployment_id: DeploymentId) -> Sequence[HistoryEntry]:
        """The history of a deployment."""


class RouteRepository(Protocol):
    """Routes and the endpoints behind them."""

    async def create(self, spec: RouteSpec, change: Change) -> RouteRecord:
        """Store a new route with its endpoints. Raises Conflict, ObjectNotFound."""

    async def get(self, route_id: RouteId) -> RouteRecord:
        """One route. Raises ObjectNotFound."""

    async def of_deployment(self, deployment_id: DeploymentId) -> Sequence[RouteRecord]:
        """The routes of a deployment, by id."""

    async def move(self, route: RouteRecord, trigger: RouteTrigger, change: Change) -> RouteRecord:
        """Apply a transition.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def set_endpoints(self, route: RouteRecord, endpoints: Sequence[Endpoint]) -> RouteRecord:
        """Replace the endpoints.

        Raises StaleVersion, Conflict (the address belongs to another route).
        """

    async def history(self, route_id: RouteId) -> Sequence[HistoryEntry]:
        """The history of a route."""

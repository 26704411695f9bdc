"""Deployments and routes as the store has them."""

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
    """Deployments. Scaling writes how many are wanted, never a difference."""

    async def create(self, spec: DeploymentSpec, change: Change) -> DeploymentRecord:
        """Store a new deployment, PENDING. Raises Conflict, NotFound."""

    async def get(self, deployment_id: DeploymentId) -> DeploymentRecord:
        """One deployment. Raises NotFound."""

    async def all(self) -> Sequence[DeploymentRecord]:
        """Every deployment that has not ended, by id."""

    async def scale(self, deployment: DeploymentRecord, replicas: int, change: Change) -> DeploymentRecord:
        """Write how many replicas are wanted. Raises StaleVersion, IllegalTransition."""

    async def move(self, deployment: DeploymentRecord, trigger: DeploymentTrigger, change: Change) -> DeploymentRecord:
        """Take a move of the table.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def history(self, deployment_id: DeploymentId) -> Sequence[HistoryEntry]:
        """The story of a deployment."""


class RouteRepository(Protocol):
    """Routes and the endpoints behind them."""

    async def create(self, spec: RouteSpec, change: Change) -> RouteRecord:
        """Store a new route with its endpoints. Raises Conflict, NotFound."""

    async def get(self, route_id: RouteId) -> RouteRecord:
        """One route. Raises NotFound."""

    async def of_deployment(self, deployment_id: DeploymentId) -> Sequence[RouteRecord]:
        """The routes of a deployment, by id."""

    async def move(self, route: RouteRecord, trigger: RouteTrigger, change: Change) -> RouteRecord:
        """Take a move of the table.

        Raises StaleVersion, IllegalTransition, ForbiddenCause.
        """

    async def set_endpoints(self, route: RouteRecord, endpoints: Sequence[Endpoint]) -> RouteRecord:
        """Replace the endpoints.

        Raises StaleVersion, Conflict (an address of another route).
        """

    async def history(self, route_id: RouteId) -> Sequence[HistoryEntry]:
        """The story of a route."""

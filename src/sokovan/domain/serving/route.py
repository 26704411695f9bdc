"""Routes from the public names of a deployment to its endpoints."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.domain.ids import DeploymentId, RouteId, checked_name


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """The route of a deployment; its entry in the table of proxies is published later."""

    route_id: RouteId
    deployment_id: DeploymentId

    def __post_init__(self) -> None:
        checked_name(self.route_id, what="route")
        checked_name(self.deployment_id, what="deployment")

"""Routes from a public address to the endpoints of a deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId, DeploymentId, KernelId, RouteId, checked_name
from sokovan.domain.serving.deployment import PORT_RANGE
from sokovan.domain.serving.health import Health

WEIGHT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one replica, taken from the ledger; never from user input.

    The proxy checks `kernel_id`, so that a port that is reused by another kernel gets no
    traffic.
    """

    kernel_id: KernelId
    agent_id: AgentId
    port: int
    health: Health = Health.UNKNOWN
    weight: int = 1

    def __post_init__(self) -> None:
        checked_name(self.kernel_id, what="kernel")
        checked_name(self.agent_id, what="agent")
        what = f"endpoint {self.kernel_id}"
        require_int(self.port, what=what, field="port", least=PORT_RANGE[0], most=PORT_RANGE[1])
        require_int(self.weight, what=what, field="weight", least=0, most=WEIGHT_MAX)
        require_kind(self.health, Health, what=what, field="health")


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A public name and the endpoints behind it."""

    route_id: RouteId
    deployment_id: DeploymentId
    endpoints: tuple[Endpoint, ...] = ()

    def __post_init__(self) -> None:
        checked_name(self.route_id, what="route")
        checked_name(self.deployment_id, what="deployment")
        require_tuple(self.endpoints, Endpoint, what=f"route {self.route_id}", field="endpoints")
        seen: set[tuple[str, int]] = set()
        for endpoint in self.endpoints:
            address = (endpoint.agent_id, endpoint.port)
            if address in seen:
                raise InvalidSpec(
                    what=f"route {self.route_id}",
                    field="endpoints",
                    value=f"{endpoint.agent_id}:{endpoint.port}",
                    problem="two endpoints have this address",
                )
            seen.add(address)


def serving(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints that may get new requests; unknown does not count as healthy."""
    return tuple(endpoint for endpoint in endpoints if endpoint.health is Health.HEALTHY and endpoint.weight)

"""Deployments of models served by replicas, and their health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind, require_labels, require_slots
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import (
    DEFAULT_QUEUE,
    DEFAULT_SCALING_GROUP,
    DeploymentId,
    QueueName,
    ScalingGroupName,
    checked_name,
)
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slots import ResourceSlot

REPLICAS_MAX = 10_000
PORT_RANGE = (1, 65_535)


class DeploymentHealth(StrEnum):
    """The health of a deployment; not a status of its lifecycle."""

    HEALTHY = auto()  # every desired replica serves
    DEGRADED = auto()  # some replicas serve
    UNHEALTHY = auto()  # no replica serves
    IDLE = auto()  # no replica is desired


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """The model, the desired replicas and the resources of a deployment.

    `replicas_desired` is intent: scaling writes the desired number, never a difference.
    """

    deployment_id: DeploymentId
    engine: str
    model: str
    slots: ResourceSlot
    replicas_desired: int = 1
    owner: Owner = field(default_factory=Owner)
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    queue: QueueName = DEFAULT_QUEUE
    port: int = 8000
    health_path: str = "/health"
    environment: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    def __post_init__(self) -> None:
        checked_name(self.deployment_id, what="deployment")
        checked_name(self.engine, what="engine")
        checked_name(self.model, what="model")
        checked_name(self.scaling_group, what="scaling group")
        checked_name(self.queue, what="queue")
        what = f"deployment {self.deployment_id}"
        require_slots(self.slots, what=what)
        require_kind(self.owner, Owner, what=what, field="owner")
        require_int(self.replicas_desired, what=what, field="replicas_desired", least=0, most=REPLICAS_MAX)
        require_int(self.port, what=what, field="port", least=PORT_RANGE[0], most=PORT_RANGE[1])
        require_int(self.revision, what=what, field="revision", least=1)
        require_labels(self.environment, what=what, field="environment")
        if not is_health_path(self.health_path):
            raise InvalidSpec(
                what=what,
                field="health_path",
                value=self.health_path,
                problem="must begin with / and be a path of at most 256 plain characters",
            )


def is_health_path(path: object) -> bool:
    """Whether it is a plain path, so that a probe cannot be redirected."""
    return (
        isinstance(path, str)
        and path.startswith("/")
        and not path.startswith("//")
        and len(path) <= 256
        and path.isascii()
        and path.isprintable()
        and " " not in path
    )


def deployment_health(*, healthy: int, desired: int) -> DeploymentHealth:
    """The health of a deployment with `healthy` of `desired` replicas."""
    if desired <= 0:
        return DeploymentHealth.IDLE
    if healthy <= 0:
        return DeploymentHealth.UNHEALTHY
    return DeploymentHealth.HEALTHY if healthy >= desired else DeploymentHealth.DEGRADED

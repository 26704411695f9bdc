"""Deployments of models served by replicas, and their health."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.ids import DEFAULT_QUEUE, DeploymentId, QueueName, ScalingGroupName, checked_name
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.serving.engine import RoutingPolicy
from sokovan.domain.serving.rollout import RolloutPolicy
from sokovan.domain.serving.scaling import ScalingPolicy
from sokovan.domain.session import PRIORITY_RANGE

REPLICAS_MAX = 10_000
# A replica of weight 2 gets twice the requests of one of weight 1; 0: none.
REPLICA_WEIGHT_MAX = 100
# The percentage of the requests of a revision.
SHARE_MAX = 100
WEIGHTS_MAX = 1_000
MODEL_NAMES_MAX = 16
# A part of URLs, and of the model names `project/name`; without a slash.
DEPLOYMENT_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,62}$"
_ORDINAL = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
STICKY_BY_DEFAULT = "header:x-session-id"
_STICKY_BY = re.compile(r"header:[a-z0-9-]{1,100}|cookie:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_NAME = re.compile(DEPLOYMENT_NAME_PATTERN.strip("^$"), re.ASCII)


class DeploymentHealth(StrEnum):
    """The health of a deployment; not a status of its lifecycle."""

    HEALTHY = auto()  # every desired replica serves
    DEGRADED = auto()  # some replicas serve
    UNHEALTHY = auto()  # no replica serves
    IDLE = auto()  # no replica is desired


class DeploymentAccess(StrEnum):
    """Whose keys may use a deployment, besides its own endpoint tokens."""

    PRIVATE = auto()  # those of its owner
    PROJECT = auto()  # those of the members of its project
    PUBLIC = auto()  # none is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """A deployment as its owner wants it; what its replicas run is in revisions.

    Owners set the bounds of the number of replicas. The number that is desired between them
    has one writer, the scaling handler. Without a scaling group, one is chosen for each
    replica. `weights` are those of replicas by ordinal, where they are not 1. `shares` are the
    percentages of the requests that new revisions get by hand, while they are canaries.
    `sticky_by` is what the routing `sticky` knows a session by: `header:NAME` or `cookie:NAME`.
    """

    deployment_id: DeploymentId
    name: str
    model_names: tuple[str, ...] = ()
    owner: Owner = field(default_factory=Owner)
    access: DeploymentAccess = DeploymentAccess.PRIVATE
    replicas_min: int = 1
    replicas_max: int = 1
    scaling: ScalingPolicy = field(default_factory=ScalingPolicy)
    rollout: RolloutPolicy = field(default_factory=RolloutPolicy)
    routing: RoutingPolicy | None = None
    scaling_group: ScalingGroupName | None = None
    queue: QueueName = DEFAULT_QUEUE
    priority: int = 0
    weights: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, int] = field(default_factory=dict)
    sticky_by: str = STICKY_BY_DEFAULT

    def __post_init__(self) -> None:
        checked_name(self.deployment_id, what="deployment")
        if not isinstance(self.name, str) or _NAME.fullmatch(self.name) is None:
            hint = "use 1 to 63 letters, digits and . _ - beginning with a letter or digit"
            raise InvalidName(what="deployment", name=self.name, hint=hint)
        checked_name(self.queue, what="queue")
        if self.scaling_group is not None:
            checked_name(self.scaling_group, what="scaling group")
        what = f"deployment {self.name}"
        require_tuple(self.model_names, str, what=what, field="model_names")
        if len(self.model_names) > MODEL_NAMES_MAX:
            problem = f"are more than {MODEL_NAMES_MAX}"
            raise InvalidSpec(what=what, field="model_names", value=len(self.model_names), problem=problem)
        for name in self.model_names:
            checked_name(name, what="model")
        require_kind(self.owner, Owner, what=what, field="owner")
        require_kind(self.access, DeploymentAccess, what=what, field="access")
        if self.routing is not None:
            require_kind(self.routing, RoutingPolicy, what=what, field="routing")
        if not isinstance(self.sticky_by, str) or _STICKY_BY.fullmatch(self.sticky_by) is None:
            problem = "must be header:NAME, in lower case, or cookie:NAME"
            raise InvalidSpec(what=what, field="sticky_by", value=self.sticky_by, problem=problem)
        require_kind(self.scaling, ScalingPolicy, what=what, field="scaling")
        require_kind(self.rollout, RolloutPolicy, what=what, field="rollout")
        require_int(self.replicas_min, what=what, field="replicas_min", least=0, most=REPLICAS_MAX)
        require_int(self.replicas_max, what=what, field="replicas_max", least=self.replicas_min, most=REPLICAS_MAX)
        require_int(self.priority, what=what, field="priority", least=PRIORITY_RANGE[0], most=PRIORITY_RANGE[1])
        self._check_numbers("weights", "replica", REPLICA_WEIGHT_MAX)
        self._check_numbers("shares", "revision", SHARE_MAX)

    def _check_numbers(self, field: str, of: str, most: int) -> None:
        what, numbers = f"deployment {self.name}", getattr(self, field)
        if not isinstance(numbers, Mapping) or len(numbers) > WEIGHTS_MAX:
            problem = f"must be at most {WEIGHTS_MAX} numbers by {of}"
            raise InvalidSpec(what=what, field=field, value=numbers, problem=problem)
        for key, number in numbers.items():
            name = f"{field}.{key}"
            if not isinstance(key, str) or _ORDINAL.fullmatch(key) is None:
                raise InvalidSpec(what=what, field=name, value=key, problem=f"is not the number of a {of}")
            require_int(number, what=what, field=name, least=0, most=most)

    @property
    def served_names(self) -> tuple[str, ...]:
        """The model names that it answers to; by default its own name."""
        return self.model_names or (self.name,)


def deployment_health(*, healthy: int, desired: int) -> DeploymentHealth:
    """The health of a deployment with `healthy` of `desired` replicas."""
    if desired <= 0:
        return DeploymentHealth.IDLE
    if healthy <= 0:
        return DeploymentHealth.UNHEALTHY
    return DeploymentHealth.HEALTHY if healthy >= desired else DeploymentHealth.DEGRADED

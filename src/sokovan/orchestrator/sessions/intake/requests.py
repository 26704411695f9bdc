"""Session requests as submitted, before defaults and validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.session import EndPolicy, LostPolicy, Mount, ServicePort, SessionType, TopologyConstraint
from sokovan.domain.tenancy import Owner, Role

# An amount as users write it: 4, 0.5, "16GiB".
Amount = int | float | str


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated principal of a request."""

    owner: Owner
    role: Role = Role.USER
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroupRequest:
    """A group of equal kernels; None means the value of the session."""

    name: str = ""
    size: int = 1
    minimum: int | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Amount] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A requested session; None and empty values are filled in by the preparer.

    `groups` empty means `size` equal kernels: kernel 0 is main, the others are sub.
    `group` is the project that the session is accounted to.
    """

    name: str = ""
    session_type: SessionType = SessionType.BATCH
    image: str = ""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Amount] = field(default_factory=dict)
    size: int = 1
    minimum: int | None = None
    groups: tuple[KernelGroupRequest, ...] = ()
    mounts: tuple[Mount, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)
    architecture: str = ""
    scaling_group: str = ""
    queue: str = ""
    group: str = ""
    priority: int = 0
    topology: TopologyConstraint | None = None
    depends_on: tuple[str, ...] = ()
    starts_at_ms: int | None = None
    time_limit_s: int | None = None
    preemptible: bool = True
    stop_grace_s: int = 10
    ends_with: EndPolicy | None = None
    tolerates_failures: bool = False
    on_agent_lost: LostPolicy = LostPolicy.END
    ports: tuple[ServicePort, ...] = ()

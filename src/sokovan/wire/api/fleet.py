"""Machines, pools, queues and images on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

_STRICT: dict[str, Any] = {"extra": "forbid"}

Amount = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """One machine."""

    id: str
    status: str
    incarnation: int
    scaling_group: str
    architecture: str
    labels: dict[str, str]
    slots: dict[str, int]
    used: dict[str, int]
    kernels: int
    kernels_max: int | None
    connected: bool
    heartbeat_at: str | None
    load: dict[str, int]
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPage:
    """Some machines, and where to go on."""

    items: list[AgentView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange:
    """What an administrator asks of a machine: drain, undrain, declare-gone."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    action: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupBody:
    """A pool of machines that are scheduled together."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    name: str
    scheduler: str = "fifo"
    scheduler_opts: dict[str, Any] = field(default_factory=dict)
    known_slots: list[str] = field(default_factory=list)
    pending_timeout_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupPage:
    """Every pool."""

    items: list[ScalingGroupBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBody:
    """A queue: its weight, its place in the tree, and how much it may use."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    name: str
    parent: str | None = None
    weight: int = 1
    priority: int = 0
    open: bool = True
    deserved: dict[str, Amount] | None = None
    guarantee: dict[str, Amount] | None = None
    capability: dict[str, Amount] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Every queue."""

    items: list[QueueBody]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBody:
    """An image that kernels may start from: `host`, `venv:NAME`, or a container's."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    name: str
    architecture: str = "x86_64"
    digest: str | None = None
    slots_min: dict[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePage:
    """Every image."""

    items: list[ImageBody]
    next: str | None = None

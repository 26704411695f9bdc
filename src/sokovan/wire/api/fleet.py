"""Machines, pools, queues and images on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sokovan.wire.api.bodies import Amount, StrictBody


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
class AgentChange(StrictBody):
    """What an administrator asks of a machine: drain, undrain, declare-gone."""

    action: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupBody(StrictBody):
    """A pool of machines that are scheduled together."""

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
class QueueBody(StrictBody):
    """A queue: its weight, its place in the tree, and how much it may use."""

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
class ImageBody(StrictBody):
    """An image that kernels may start from: `host`, `venv:NAME`, or a container's."""

    name: str
    architecture: str = "x86_64"
    digest: str | None = None
    slots_min: dict[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePage:
    """Every image."""

    items: list[ImageBody]
    next: str | None = None

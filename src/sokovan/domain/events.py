"""Domain events, named in the past tense.

An event is a hint that something changed and never the only copy of a fact: it may be
lost, repeated or late, and consumers read the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sokovan.domain.ids import AgentId, DeploymentId, KernelId, ReplicaId, RouteId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.plain_values import InvalidDocument, from_plain, to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of every event: when it happened, by the store's clock."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMoved(Event):
    """A session changed its status."""

    session_id: SessionId
    before: SessionStatus
    after: SessionStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSubmitted(Event):
    """Sessions of one owner were stored together; all of them wait.

    `count` is how many there are, and `session_ids` names the first ones.
    """

    session_ids: tuple[SessionId, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsChanged(Event):
    """The pending reason of waiting sessions changed.

    Progress of an image pull counts as a reason. One event covers many sessions:
    thousands may get the same new reason at once.
    """

    session_ids: tuple[SessionId, ...]
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMoved(Event):
    """A kernel changed its status."""

    kernel_id: KernelId
    session_id: SessionId
    before: KernelStatus
    after: KernelStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsMoved(Event):
    """Many kernels of one session changed their status in the same way."""

    kernel_ids: tuple[KernelId, ...]
    session_id: SessionId
    before: KernelStatus
    after: KernelStatus
    trigger: str

    def each(self) -> Iterator[KernelMoved]:
        """The same as one event for each kernel."""
        for kernel_id in self.kernel_ids:
            yield KernelMoved(
                at_ms=self.at_ms,
                kernel_id=kernel_id,
                session_id=self.session_id,
                before=self.before,
                after=self.after,
                trigger=self.trigger,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMoved(Event):
    """An agent changed its status."""

    agent_id: AgentId
    incarnation: int
    before: AgentStatus
    after: AgentStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentMoved(Event):
    """A deployment changed its status."""

    deployment_id: DeploymentId
    before: DeploymentStatus
    after: DeploymentStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMoved(Event):
    """A route changed its status."""

    route_id: RouteId
    before: RouteStatus
    after: RouteStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMoved(Event):
    """A replica changed its status."""

    replica_id: ReplicaId
    deployment_id: DeploymentId
    before: ReplicaStatus
    after: ReplicaStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMoved(Event):
    """A rollout changed its status."""

    rollout_id: str
    deployment_id: DeploymentId
    before: RolloutStatus
    after: RolloutStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentScaled(Event):
    """The desired number of replicas changed."""

    deployment_id: DeploymentId
    replicas_before: int
    replicas_desired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnrolled(Event):
    """An agent enrolled, for the first time or with a new incarnation."""

    agent_id: AgentId
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeIssued(Event):
    """A notice of an extension, committed with the change it is about."""

    topic: str
    about: str
    body: Mapping[str, str] = field(default_factory=dict)


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        SessionMoved,
        SessionsSubmitted,
        VerdictsChanged,
        KernelMoved,
        KernelsMoved,
        AgentMoved,
        DeploymentMoved,
        RouteMoved,
        ReplicaMoved,
        RolloutMoved,
        DeploymentScaled,
        AgentEnrolled,
        NoticeIssued,
    )
}


def event_to_plain(event: Event) -> dict[str, Any]:
    """The event as a plain mapping, with its type name."""
    return {"event": type(event).__name__, **to_plain(event)}


def event_from_plain(value: Mapping[str, Any]) -> Event:
    """The event of a plain mapping. Raises InvalidDocument, also for unknown types."""
    kind = KINDS.get(str(value.get("event")))
    if kind is None:
        raise InvalidDocument(key="event", problem=f"{value.get('event')!r} is not a known event type")
    return from_plain(kind, {name: item for name, item in value.items() if name != "event"}, key="event")

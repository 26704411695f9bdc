"""What has happened, in the past tense.

An event is a hint that something changed and never the only copy of a fact: it
may be lost, repeated or late, and whoever hears it reads the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sokovan.domain.ids import AgentId, DeploymentId, KernelId, RouteId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.plain_values import InvalidDocument, from_plain, to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of every event: when it happened, by the store's clock."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMoved(Event):
    """A session took a move of its table."""

    session_id: SessionId
    before: SessionStatus
    after: SessionStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsChanged(Event):
    """Sessions that wait have a reason that they did not have before.

    For a place, or for an image: how far it is counts as a reason.

    One event for many of them: where thousands wait, they hear of a new reason together.
    """

    session_ids: tuple[SessionId, ...]
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMoved(Event):
    """A kernel took a move of its table."""

    kernel_id: KernelId
    session_id: SessionId
    before: KernelStatus
    after: KernelStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMoved(Event):
    """An agent took a move of its table."""

    agent_id: AgentId
    incarnation: int
    before: AgentStatus
    after: AgentStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentMoved(Event):
    """A deployment took a move of its table."""

    deployment_id: DeploymentId
    before: DeploymentStatus
    after: DeploymentStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMoved(Event):
    """A route took a move of its table."""

    route_id: RouteId
    before: RouteStatus
    after: RouteStatus
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentScaled(Event):
    """Another number of replicas is wanted."""

    deployment_id: DeploymentId
    replicas_before: int
    replicas_desired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnrolled(Event):
    """An agent joined, or came back with a new incarnation."""

    agent_id: AgentId
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeIssued(Event):
    """What an extension has to say about something that was committed with it."""

    topic: str
    about: str
    body: Mapping[str, str] = field(default_factory=dict)


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        SessionMoved,
        VerdictsChanged,
        KernelMoved,
        AgentMoved,
        DeploymentMoved,
        RouteMoved,
        DeploymentScaled,
        AgentEnrolled,
        NoticeIssued,
    )
}


def event_to_plain(event: Event) -> dict[str, Any]:
    """An event as JSON has it, with its kind."""
    return {"event": type(event).__name__, **to_plain(event)}


def event_from_plain(value: Mapping[str, Any]) -> Event:
    """The event of a plain mapping. Raises InvalidDocument, for unknown kinds too."""
    kind = KINDS.get(str(value.get("event")))
    if kind is None:
        raise InvalidDocument(key="event", problem=f"{value.get('event')!r} is no kind of event that is known here")
    return from_plain(kind, {name: item for name, item in value.items() if name != "event"}, key="event")

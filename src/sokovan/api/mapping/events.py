"""Converts events to wire types."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.api.mapping.times import time_text
from sokovan.domain.events import (
    AgentEnrolled,
    AgentMoved,
    DeploymentMoved,
    DeploymentScaled,
    Event,
    KernelMoved,
    KernelsMoved,
    NoticeIssued,
    ReplicaMoved,
    RolloutMoved,
    RouteMoved,
    SessionMoved,
    SessionsSubmitted,
    VerdictsChanged,
)
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.wire.api.system import EventView

# Object kinds whose events every user may see.
SHARED = frozenset({"agent"})
# Sessions that an event about many of them names; it counts all.
NAMED_MAX = 200


_MOVES: dict[type[Event], tuple[str, str]] = {
    SessionMoved: ("session", "session_id"),
    KernelMoved: ("kernel", "kernel_id"),
    AgentMoved: ("agent", "agent_id"),
    DeploymentMoved: ("deployment", "deployment_id"),
    RouteMoved: ("route", "route_id"),
    ReplicaMoved: ("replica", "replica_id"),
    RolloutMoved: ("rollout", "rollout_id"),
}


def event_view(event: Event) -> EventView:
    """The wire view of an event."""
    kind, name, before, after, trigger = _view_fields(event)
    many = event.session_ids if isinstance(event, VerdictsChanged | SessionsSubmitted) else ()
    return EventView(
        object=kind, id=name, before=before, after=after, trigger=trigger, at=time_text(event.at_ms),
        count=event.count if isinstance(event, SessionsSubmitted) else len(many), sessions=list(many[:NAMED_MAX]),
    )  # fmt: skip


def event_views(event: Event) -> list[EventView]:
    """The wire views of an event: of many kernels, one for each."""
    if isinstance(event, KernelsMoved):
        return [event_view(one) for one in event.each()]
    return [event_view(event)]


def submitted_event(sessions: Sequence[SessionRecord], now_ms: int) -> SessionsSubmitted:
    """The event of new sessions of one owner; an array is given by its first."""
    count = sum(1 if one.spec.array is None else one.spec.array.size for one in sessions)
    return SessionsSubmitted(at_ms=now_ms, session_ids=tuple(one.session_id for one in sessions), count=count)


def missed_view(now_ms: int) -> EventView:
    """The view that marks missing events."""
    return EventView(object="stream", id="", before=None, after="resync", trigger="lost", at=time_text(now_ms))


def session_of(event: Event) -> SessionId | None:
    """The session of an event; of several with the same owner, the first."""
    if isinstance(event, SessionsSubmitted):
        return next(iter(event.session_ids), None)
    return event.session_id if isinstance(event, SessionMoved | KernelMoved | KernelsMoved) else None


def sessions_of(event: Event) -> tuple[SessionId, ...]:
    """Every session that an event concerns."""
    if isinstance(event, VerdictsChanged | SessionsSubmitted):
        return event.session_ids
    about = session_of(event)
    return () if about is None else (about,)


def _view_fields(event: Event) -> tuple[str, str, str | None, str, str]:
    match event:
        case (
            SessionMoved()
            | KernelMoved()
            | AgentMoved()
            | DeploymentMoved()
            | RouteMoved()
            | ReplicaMoved()
            | RolloutMoved()
        ):
            kind, name = _MOVES[type(event)]
            return kind, getattr(event, name), event.before, event.after, event.trigger
        case SessionsSubmitted():
            return "session", session_of(event) or "", None, SessionStatus.PENDING.value, "submitted"
        case AgentEnrolled():
            return "agent", event.agent_id, None, "alive", "enrolled"
        case DeploymentScaled():
            before, after = str(event.replicas_before), str(event.replicas_desired)
            return "deployment", event.deployment_id, before, after, "scaled"
        case VerdictsChanged():
            return "verdicts", "", None, event.code, "changed"
        case NoticeIssued():
            return "notice", event.about, None, event.topic, "issued"
        case _:
            return type(event).__name__, "", None, "", ""

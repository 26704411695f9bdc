"""Domain events, named in the past tense."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, get_type_hints

import pytest

from sokovan.domain import events
from sokovan.domain.events import (
    AgentEnrolled,
    AgentMoved,
    DeploymentMoved,
    DeploymentScaled,
    Event,
    KernelMoved,
    ReplicaMoved,
    RolloutMoved,
    RouteMoved,
    SessionMoved,
)
from sokovan.domain.ids import AgentId, DeploymentId, SessionId
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION, SessionStatus, SessionTrigger
from sokovan.domain.lifecycle.transition_table import TransitionTable

MOVED = SessionMoved(
    at_ms=1000,
    session_id=SessionId("s1"),
    before=SessionStatus.PENDING,
    after=SessionStatus.SCHEDULED,
    trigger=SessionTrigger.ALLOCATED,
)
EVERY_EVENT = Event.__subclasses__()


@pytest.mark.parametrize(
    ("event", "table"),
    [
        (SessionMoved, SESSION),
        (KernelMoved, KERNEL),
        (AgentMoved, AGENT),
        (DeploymentMoved, DEPLOYMENT),
        (RouteMoved, ROUTE),
        (ReplicaMoved, REPLICA),
        (RolloutMoved, ROLLOUT),
    ],
)
def test_every_lifecycle_has_an_event_for_its_transitions(event: type[Event], table: TransitionTable[Any, Any]) -> None:
    hints = get_type_hints(event)
    assert hints["before"] is hints["after"] is type(table.initial)
    assert f"{table.name}_id" in hints
    assert "trigger" in hints


def test_a_kernel_event_names_its_session_and_an_agent_event_its_incarnation() -> None:
    assert "session_id" in get_type_hints(KernelMoved)
    assert "incarnation" in get_type_hints(AgentMoved)


@pytest.mark.parametrize("event", EVERY_EVENT)
def test_every_event_is_in_the_past_tense_and_has_a_time(event: type[Event]) -> None:
    assert event.__name__.endswith("ed")
    assert event.__module__ == events.__name__
    assert fields(event)[0].name == "at_ms"


def test_equal_events_compare_equal() -> None:
    repeated = DeploymentScaled(at_ms=1, deployment_id=DeploymentId("d1"), replicas_before=1, replicas_desired=3)
    assert {repeated, repeated} == {
        DeploymentScaled(at_ms=1, deployment_id=DeploymentId("d1"), replicas_before=1, replicas_desired=3)
    }
    assert AgentEnrolled(at_ms=1, agent_id=AgentId("a1"), incarnation=1) != AgentEnrolled(
        at_ms=1, agent_id=AgentId("a1"), incarnation=2
    )


def test_what_has_happened_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        MOVED.at_ms = 2000  # type: ignore[misc]  # that is the point


def test_events_take_keywords_so_that_before_and_after_are_never_swapped() -> None:
    made: Any = SessionMoved
    with pytest.raises(TypeError, match="positional"):
        made(1000, SessionId("s1"), SessionStatus.PENDING, SessionStatus.SCHEDULED, "allocated")

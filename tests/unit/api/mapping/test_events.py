"""Events as the wire has them."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.events import NAMED_MAX, event_view, event_views, session_of, sessions_of, submitted_event
from sokovan.domain.arrays import read_array
from sokovan.domain.events import (
    KINDS,
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
from sokovan.domain.ids import AgentId, DeploymentId, KernelId, ReplicaId, RouteId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.replica import ReplicaStatus
from sokovan.domain.lifecycle.rollout import RolloutStatus
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.lifecycle.session import SessionStatus
from tests.unit.orchestrator.sessions.controller_harness import controller_harness

_S, _K = SessionStatus, KernelStatus
DEPLOYMENT, ROUTE = list(DeploymentStatus), list(RouteStatus)
VIEWS: list[tuple[Event, tuple[str, str, str | None, str, str]]] = [
    (
        SessionMoved(at_ms=0, session_id=SessionId("s"), before=_S.PENDING, after=_S.SCHEDULED, trigger="allocated"),
        ("session", "s", "pending", "scheduled", "allocated"),
    ),
    (
        KernelMoved(
            at_ms=0,
            kernel_id=KernelId("k"),
            session_id=SessionId("s"),
            before=_K.CREATING,
            after=_K.RUNNING,
            trigger="started",
        ),
        ("kernel", "k", "creating", "running", "started"),
    ),
    (
        AgentMoved(
            at_ms=0,
            agent_id=AgentId("a"),
            incarnation=1,
            before=AgentStatus.ALIVE,
            after=AgentStatus.DRAINING,
            trigger="drain_requested",
        ),
        ("agent", "a", "alive", "draining", "drain_requested"),
    ),
    (AgentEnrolled(at_ms=0, agent_id=AgentId("a"), incarnation=2), ("agent", "a", None, "alive", "enrolled")),
    (
        DeploymentMoved(
            at_ms=0, deployment_id=DeploymentId("d"), before=DEPLOYMENT[0], after=DEPLOYMENT[1], trigger="t"
        ),
        ("deployment", "d", DEPLOYMENT[0].value, DEPLOYMENT[1].value, "t"),
    ),
    (
        DeploymentScaled(at_ms=0, deployment_id=DeploymentId("d"), replicas_before=1, replicas_desired=3),
        ("deployment", "d", "1", "3", "scaled"),
    ),
    (
        RouteMoved(at_ms=0, route_id=RouteId("r"), before=ROUTE[0], after=ROUTE[1], trigger="t"),
        ("route", "r", ROUTE[0].value, ROUTE[1].value, "t"),
    ),
    (
        ReplicaMoved(
            at_ms=0,
            replica_id=ReplicaId("p"),
            deployment_id=DeploymentId("d"),
            before=ReplicaStatus.WARMING,
            after=ReplicaStatus.ACTIVE,
            trigger="t",
        ),
        ("replica", "p", "warming", "active", "t"),
    ),
    (
        RolloutMoved(
            at_ms=0,
            rollout_id="o",
            deployment_id=DeploymentId("d"),
            before=RolloutStatus.PLANNING,
            after=RolloutStatus.PROGRESSING,
            trigger="t",
        ),
        ("rollout", "o", "planning", "progressing", "t"),
    ),
    (
        VerdictsChanged(at_ms=0, session_ids=(SessionId("s"), SessionId("t")), code="NEVER_FITS"),
        ("verdicts", "", None, "NEVER_FITS", "changed"),
    ),
    (
        SessionsSubmitted(at_ms=0, session_ids=(SessionId("s"), SessionId("t")), count=2),
        ("session", "s", None, "pending", "submitted"),
    ),
    (NoticeIssued(at_ms=0, topic="quota", about="x"), ("notice", "x", None, "quota", "issued")),
]


@pytest.mark.parametrize(("event", "view_fields"), VIEWS)
def test_an_event_names_its_object_and_its_move(
    event: Event, view_fields: tuple[str, str, str | None, str, str]
) -> None:
    view = event_view(event)
    assert (view.object, view.id, view.before, view.after, view.trigger) == view_fields
    assert view.at == "1970-01-01T00:00:00.000Z"


def test_an_event_about_many_sessions_counts_all_and_names_the_first() -> None:
    ids = tuple(SessionId(f"s{number}") for number in range(NAMED_MAX + 1))
    view = event_view(VerdictsChanged(at_ms=0, session_ids=ids, code="NEVER_FITS"))
    assert (view.count, view.sessions) == (NAMED_MAX + 1, list(ids[:NAMED_MAX]))
    view = event_view(SessionsSubmitted(at_ms=0, session_ids=ids[:2], count=10_000))
    assert (view.count, view.sessions) == (10_000, list(ids[:2]))


def test_every_kind_of_event_has_a_view() -> None:
    assert {type(event) for event, _ in VIEWS} | {KernelsMoved} == set(KINDS.values())


def test_an_event_of_many_kernels_has_a_view_of_each() -> None:
    event = KernelsMoved(
        at_ms=0,
        kernel_ids=(KernelId("k1"), KernelId("k2")),
        session_id=SessionId("s"),
        before=_K.CREATING,
        after=_K.RUNNING,
        trigger="started",
    )
    views = event_views(event)
    assert [(one.object, one.id, one.before, one.after, one.trigger) for one in views] == [
        ("kernel", "k1", "creating", "running", "started"),
        ("kernel", "k2", "creating", "running", "started"),
    ]
    assert (session_of(event), sessions_of(event)) == ("s", ("s",))
    single = VIEWS[1][0]
    assert event_views(single) == [event_view(single)]


def test_only_sessions_and_their_kernels_are_about_a_session() -> None:
    assert [session_of(event) for event, _ in VIEWS[:3]] == ["s", "s", None]


def test_a_new_reason_is_about_every_session_that_has_it() -> None:
    about = {view[0]: sessions_of(event) for event, view in VIEWS}
    assert (about["verdicts"], about["kernel"], about["agent"]) == (("s", "t"), ("s",), ())


def test_new_sessions_of_one_owner_are_seen_by_who_sees_the_first() -> None:
    event = SessionsSubmitted(at_ms=0, session_ids=(SessionId("s"), SessionId("t")), count=2)
    assert (session_of(event), sessions_of(event)) == ("s", ("s", "t"))


@pytest.mark.slow
async def test_an_array_is_counted_by_its_size() -> None:
    async with controller_harness() as on:
        first, other = await on.submit(array=read_array("0-6")), await on.submit()
    event = submitted_event([first, other], 5)
    assert event == SessionsSubmitted(at_ms=5, session_ids=(first.session_id, other.session_id), count=8)

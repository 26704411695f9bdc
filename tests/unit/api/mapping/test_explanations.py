"""Explanations and plans, as the wire has them."""

from __future__ import annotations

import msgspec

from sokovan.api.mapping.explanations import plan_view, waiting_view, why_view
from sokovan.domain.ids import AgentId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.explain.explanations import (
    Ahead,
    Explanation,
    PastReason,
    PlannedSession,
    WaitingSummary,
    When,
    WouldStart,
)
from sokovan.scheduling.trace import Advice, Check


def test_an_explanation_is_converted_completely() -> None:
    view = why_view(
        Explanation(
            session_id=SessionId("s"),
            status=SessionStatus.PENDING,
            verdict=Advice.WAIT,
            code="FRAGMENTED",
            summary="3 of 4 fit",
            checks=(Check("concurrency", "ok", "2 of 5"),),
            funnel={"all": 4, "alive": 3},
            position=2,
            ahead=(Ahead(session="t", why="is earlier"),),
            would_start=(WouldStart(when=When.NOW, change="size 3"),),
            history=(PastReason(code="NO_NODES", summary="none", count=3, first_ms=0, last_ms=1000),),
            as_of_ms=2000,
            name="train",
            times_out_ms=3000,
        )
    )
    assert (view.session, view.status, view.verdict, view.code) == ("s", "pending", "WAIT", "FRAGMENTED")
    assert [(one.name, one.result, one.detail) for one in view.checks] == [("concurrency", "ok", "2 of 5")]
    assert (view.funnel, view.position) == ({"all": 4, "alive": 3}, 2)
    assert [(one.session, one.why) for one in view.ahead] == [("t", "is earlier")]
    assert [(one.when, one.change) for one in view.would_start] == [("now", "size 3")]
    assert [(one.code, one.count, one.last) for one in view.history] == [("NO_NODES", 3, "1970-01-01T00:00:01.000Z")]
    assert view.as_of == "1970-01-01T00:00:02.000Z"
    assert (view.name, view.times_out_at) == ("train", "1970-01-01T00:00:03.000Z")
    assert msgspec.json.encode(view)


def test_a_plan_says_when_and_where() -> None:
    view = plan_view(
        PlannedSession(
            would_start=When.NOW,
            code="PLACED",
            summary="placed",
            verdict=Advice.NOTHING,
            slots=ResourceSlot({"cpu": 1000}),
            size=1,
            scaling_group=ScalingGroupName("default"),
            queue=QueueName("q"),
            image="host",
            placements=((0, AgentId("a1")),),
        )
    )
    assert (view.would_start, view.verdict, view.slots) == ("now", "NOTHING", {"cpu": 1000})
    assert [(one.kernel, one.agent) for one in view.placements] == [(0, "a1")]
    assert msgspec.json.encode(view)


def test_waiting_sessions_are_grouped_by_reason() -> None:
    summary = WaitingSummary(
        code="NO_NODES", verdict=Advice.ASK_ADMIN, sessions=2, oldest_ms=0, meaning="none", slots=ResourceSlot()
    )
    item = waiting_view([summary]).items[0]
    assert (item.code, item.verdict, item.sessions, item.slots) == ("NO_NODES", "ASK_ADMIN", 2, {})
    assert msgspec.json.encode(item)

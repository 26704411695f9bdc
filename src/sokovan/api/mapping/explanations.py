"""Explanations and plans, as the wire has them."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.api.mapping.times import time_text, time_text_or_none
from sokovan.orchestrator.sessions.explain.explanations import Explanation, PlannedSession, WaitingSummary
from sokovan.scheduling.trace import Check
from sokovan.wire.api.explanations import (
    AheadView,
    CheckView,
    PlacementView,
    PlanView,
    ReasonView,
    StartView,
    WaitingReason,
    WaitingView,
    WhyView,
)


def why_view(told: Explanation) -> WhyView:
    """Why a session is where it is."""
    return WhyView(
        session=told.session_id,
        status=told.status.value,
        verdict=str(told.verdict),
        code=told.code,
        summary=told.summary,
        checks=_checks(told.checks),
        funnel=dict(told.funnel),
        position=told.position,
        ahead=[AheadView(session=one.session, why=one.why) for one in told.ahead],
        would_start=[StartView(when=str(one.when), change=one.change) for one in told.would_start],
        history=[
            ReasonView(
                code=one.code,
                summary=one.summary,
                count=one.count,
                first=time_text(one.first_ms),
                last=time_text(one.last_ms),
            )
            for one in told.history
        ],
        as_of=time_text_or_none(told.as_of_ms),
    )


def plan_view(planned: PlannedSession) -> PlanView:
    """What would become of a request."""
    return PlanView(
        would_start=str(planned.would_start),
        code=planned.code,
        summary=planned.summary,
        verdict=str(planned.verdict),
        slots=dict(planned.slots),
        size=planned.size,
        scaling_group=planned.scaling_group,
        queue=planned.queue,
        image=planned.image,
        placements=[PlacementView(kernel=kernel, agent=agent) for kernel, agent in planned.placements],
        checks=_checks(planned.checks),
        funnel=dict(planned.funnel),
        position=planned.position,
    )


def waiting_view(reasons: Iterable[WaitingSummary]) -> WaitingView:
    """All that waits, by reason."""
    return WaitingView(
        items=[
            WaitingReason(
                code=one.code,
                verdict=str(one.verdict),
                sessions=one.sessions,
                slots=dict(one.slots),
                oldest=time_text(one.oldest_ms),
                meaning=one.meaning,
            )
            for one in reasons
        ]
    )


def _checks(checks: Iterable[Check]) -> list[CheckView]:
    return [CheckView(name=one.name, result=one.result, detail=one.detail) for one in checks]

"""Explanations on the wire."""

from __future__ import annotations

from sokovan.wire.api.explanations import CheckView, PlanView, WaitingReason, WaitingView, WhyView
from tests.unit.wire.api.bodies import read_by_both, written


def test_why_goes_over_the_wire_and_comes_back_the_same() -> None:
    why = WhyView(
        session="s-1",
        status="pending",
        verdict="WAIT",
        code="NOT_ENOUGH_FREE",
        summary="no agent has enough free",
        checks=[CheckView(name="room", result="short", detail="gpu 1 of 2")],
        funnel={"agents": 4, "fits_now": 0},
    )
    assert read_by_both(WhyView, written(why)) == why


def test_a_plan_goes_over_the_wire_and_comes_back_the_same() -> None:
    plan = PlanView(
        would_start="never",
        code="NEVER_FITS",
        summary="no agent could hold it",
        verdict="CHANGE",
        slots={"cpu": 1000},
        size=1,
        scaling_group="default",
        queue="default",
        image="host",
    )
    assert read_by_both(PlanView, written(plan)) == plan


def test_waiting_sessions_are_grouped_by_reason() -> None:
    reason = WaitingReason(
        code="QUOTA_USER", verdict="WAIT", sessions=3, slots={"cpu": 1}, oldest="2026-01-01T00:00:00Z", meaning="full"
    )
    assert read_by_both(WaitingView, written(WaitingView(items=[reason]))).items == [reason]

"""The start time of batch sessions."""

from __future__ import annotations

import pytest

from sokovan.domain.session import SessionType
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.trace import Advice, Code
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started, verdict_of


def plan_at(now_ms: int, *, starts_at_ms: int | None) -> SchedulingPlan:
    """The plan at a time for a batch session with a start time."""
    batch = session("s", session_type=SessionType.BATCH, starts_at_ms=starts_at_ms)
    return decide(snapshot([agent("a")], [batch], now_ms=now_ms), validators=("reserved-batch-session",))


@pytest.mark.parametrize("starts_at_ms", [None, 0, 9_999, 10_000])
def test_a_session_starts_at_its_time_and_later(starts_at_ms: int | None) -> None:
    assert started(plan_at(10_000, starts_at_ms=starts_at_ms)) == ["s"]


@pytest.mark.parametrize(("starts_at_ms", "seconds"), [(10_001, 1), (11_000, 1), (11_001, 2), (70_000, 60)])
def test_a_session_waits_for_its_time_and_says_how_long_rounded_up(starts_at_ms: int, seconds: int) -> None:
    plan = plan_at(10_000, starts_at_ms=starts_at_ms)
    verdict = verdict_of(plan, "s")
    assert started(plan) == []
    assert (verdict.code, verdict.advice) == (Code.NOT_YET_BEGIN, Advice.WAIT)
    assert verdict.summary == f"starts in {seconds} s"

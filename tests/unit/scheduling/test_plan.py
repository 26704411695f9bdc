"""SchedulingPlan: plain values, and the verdicts by session."""

from __future__ import annotations

import dataclasses

import pytest

from sokovan.domain.ids import SessionId
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.trace import Code, Verdict
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot


def test_an_empty_plan_does_nothing() -> None:
    plan = SchedulingPlan()
    assert not any(getattr(plan, field.name) for field in dataclasses.fields(plan))
    assert plan.trace == {}


def test_a_placement_names_kernel_session_and_agent() -> None:
    [placement] = decide(snapshot([agent("a")], [session("s")])).placements
    assert placement._asdict() == {"kernel_id": "s.0", "session_id": "s", "agent_id": "a"}


def test_verdicts_are_found_by_session() -> None:
    first, second = (Verdict(SessionId(name), Code.PLACED, "placed") for name in "st")
    assert SchedulingPlan(verdicts=(first, second)).trace == {"s": first, "t": second}


def test_every_session_that_waited_has_exactly_one_verdict() -> None:
    plan = decide(snapshot([agent("a", "cpu=1")], [session("s"), session("t"), session("u", "cpu=9")]))
    assert sorted(verdict.session_id for verdict in plan.verdicts) == ["s", "t", "u"]


def test_a_plan_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SchedulingPlan().placements = ()  # type: ignore[misc]  # this is what is forbidden
    assert SchedulingPlan() == SchedulingPlan()

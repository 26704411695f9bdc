"""Dependencies between sessions."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import SessionId
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, started, verdict_of


def plan_after(*needs: str, **outcomes: bool) -> SchedulingPlan:
    """The plan for a session whose dependencies have these outcomes."""
    waits = session("s", dependencies=tuple(SessionId(name) for name in needs))
    seen = snapshot([agent("a")], [waits], outcomes={SessionId(name): ended for name, ended in outcomes.items()})
    return decide(seen, validators=("dependencies",))


def test_a_session_without_dependencies_starts() -> None:
    assert started(plan_after()) == ["s"]


def test_a_session_starts_once_everything_it_needs_has_ended_well() -> None:
    assert started(plan_after("p", "q", p=True, q=True)) == ["s"]


def test_a_session_waits_for_what_has_not_ended_and_says_how_many_it_waits_for() -> None:
    plan = plan_after("p", "q", "r", q=True)
    assert started(plan) == []
    assert verdict_of(plan, "s").code is Code.DEPENDENCY
    assert verdict_of(plan, "s").summary == "p, r must end first (2 of 3 dependencies)"


@pytest.mark.parametrize("others", [{}, {"q": True}], ids=["the other still runs", "the other ended well"])
def test_a_session_does_not_start_after_a_failure_and_names_what_failed(others: dict[str, bool]) -> None:
    plan = plan_after("p", "q", p=False, **others)
    assert started(plan) == []
    assert verdict_of(plan, "s").summary == "p failed, so this session will not start"


def test_what_others_wait_for_does_not_hold_up_a_session() -> None:
    waits = session("s", dependencies=(SessionId("p"),))
    assert started(decide(snapshot([agent("a")], [waits, session("t")]))) == ["t"]

"""Errors, events and health on the wire."""

from __future__ import annotations

from sokovan.wire.api.system import EventView, FieldProblem, HealthView, ProblemView
from tests.unit.wire.api.bodies import read_by_both, written


def test_a_problem_carries_code_hint_and_places() -> None:
    problem = ProblemView(
        type="about:blank",
        title="Unprocessable",
        status=422,
        detail="two values are wrong",
        code="invalid-request",
        hint="correct them",
        problems=[FieldProblem(where="groups/0/size", problem="must be at least 1")],
    )
    assert read_by_both(ProblemView, written(problem)) == problem


def test_events_and_health_come_back_the_same() -> None:
    event = EventView(object="session", id="s-1", before=None, after="pending", trigger="submitted", at="t")
    health = HealthView(status="ok", version="0.1.0", parts={"store": "ok"})
    assert read_by_both(EventView, written(event)) == event
    assert read_by_both(HealthView, written(health)) == health

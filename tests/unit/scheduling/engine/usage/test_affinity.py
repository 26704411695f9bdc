"""AffinityIndex: the agents that affinity to other sessions allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.constraints.affinity import read_affinity
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.scheduling.engine.usage import affinity
from sokovan.scheduling.engine.usage.affinity import AffinityIndex, AffinityRule
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.builders import EngineParts, agents, kernel, session

PROJECT = ("default", "vision")


def constraints(*, app: str = "", near: str = "", apart: str = "", project: str = "vision") -> PlacementConstraints:
    return PlacementConstraints(
        ("default", project),
        labels=(("app", app),) if app else (),
        affinity=(read_affinity(near),) if near else (),
        anti_affinity=(read_affinity(apart),) if apart else (),
    )


def work(name: str, given: PlacementConstraints, *, at: str | None = None) -> SessionWorkload:
    made = session(name, kernel(f"{name}.0", "cpu=1", at=at))
    return replace(made, kernels=tuple(replace(one, constraints=given) for one in made.kernels))


def allowed(index: AffinityIndex, given: PlacementConstraints) -> list[bool] | None:
    rule = index.rule(given)
    mask = rule.allowed() if rule is not None else None
    return None if mask is None else mask.tolist()


def test_without_terms_no_session_has_a_rule() -> None:
    engine = EngineParts(*agents(2, "cpu=4"))
    labelled = constraints(app="db")
    assert AffinityIndex([work("db", labelled, at="a0")], engine.workspace).rule(labelled) is None


def test_only_sessions_that_a_term_concerns_have_a_rule() -> None:
    engine = EngineParts(*agents(2, "cpu=4"))
    near, db, web = constraints(near="app=db"), constraints(app="db"), constraints(app="web")
    index = AffinityIndex([work("s", near), work("db", db, at="a1")], engine.workspace)
    assert allowed(index, near) == [False, True]
    assert index.rule(db) is not None
    assert index.rule(web) is None
    assert index.rule(constraints(app="db", project="audio")) is None


def test_counts_follow_what_is_placed_and_taken_back() -> None:
    engine = EngineParts(*agents(2, "cpu=4"))
    apart = constraints(app="x", apart="app=x")
    index = AffinityIndex([work("s", apart)], engine.workspace)
    rule = index.rule(apart)
    assert isinstance(rule, AffinityRule)
    assert rule.changes_itself
    assert rule.allowed() is None
    rule.count(0, 1)
    assert allowed(index, apart) == [False, True]
    rule.count(0, -1)
    assert rule.allowed() is None


def test_terms_beyond_the_limit_of_a_project_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "TERMS_PER_PROJECT_MAX", 1)
    engine = EngineParts(*agents(1, "cpu=4"))
    runs, waits = constraints(apart="app=a"), constraints(near="app=b")
    index = AffinityIndex([work("waits", waits), work("runs", runs, at="a0")], engine.workspace)
    kept, refused = index.rule(runs), index.rule(waits)
    assert kept is not None
    assert not kept.problem
    assert refused is not None
    assert "more than 1 distinct" in refused.problem
    assert allowed(index, waits) == [False]

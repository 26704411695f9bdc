"""The number of sessions of an array that run at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sokovan.domain.ids import AgentId
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Advice, Code
from tests.unit.scheduling.little_cluster import agent, decide, kernel, session, snapshot, started, verdict_of


def member(name: str, *, array: str = "x", limit: int | None = 2, **options: Any) -> SessionWorkload:
    return replace(session(name), array=array, array_limit=limit, **options)


def running(name: str, *, releasing: bool = False) -> SessionWorkload:
    place = replace(kernel(f"{name}.0"), agent=AgentId("a"), releasing=releasing)
    return member(name, kernels=(place,))


def test_sessions_start_up_to_the_limit_of_their_array() -> None:
    sessions = [*(member(name) for name in "stu"), *(member(name, array="y", limit=1) for name in "vw"), session("z")]
    plan = decide(snapshot([agent("a", "cpu=64")], sessions))
    assert started(plan) == ["s", "t", "v", "z"]
    verdict = verdict_of(plan, "u")
    assert (verdict.code, verdict.advice, verdict.summary) == (
        Code.ARRAY_LIMIT,
        Advice.WAIT,
        "2 of 2 sessions of its array run",
    )


def test_sessions_that_run_or_terminate_count() -> None:
    waiting = [member("t"), member("u")]
    assert started(decide(snapshot([agent("a", "cpu=64")], [running("s"), *waiting]))) == ["t"]
    assert started(decide(snapshot([agent("a", "cpu=64")], [running("s", releasing=True), *waiting]))) == ["t"]
    assert started(decide(snapshot([agent("a", "cpu=64")], [running("r"), running("s"), *waiting]))) == []


def test_the_rule_holds_in_every_profile() -> None:
    plan = decide(snapshot([agent("a", "cpu=64")], [member("s", limit=1), member("t", limit=1)]), validators=())
    assert started(plan) == ["s"]
    assert "array-limit" not in SchedulingProfile().validators


def test_an_array_without_a_limit_starts_as_a_whole() -> None:
    plan = decide(snapshot([agent("a", "cpu=64")], [member(name, limit=None) for name in "stuv"]))
    assert started(plan) == ["s", "t", "u", "v"]


def test_one_that_does_not_fit_takes_no_place_of_the_others() -> None:
    large = member("s", limit=1, kernels=(kernel("s.0", "cpu=100"),))
    assert started(decide(snapshot([agent("a", "cpu=64")], [large, member("t", limit=1)]))) == ["t"]

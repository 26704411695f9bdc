"""Verdicts and the DecisionTrace: codes, advice, and the sentence of the funnel."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import SessionId
from sokovan.scheduling.trace import MEANING, Advice, Check, Code, DecisionTrace, Funnel, Verdict
from tests.unit.scheduling.little_cluster import agent, decide, session, snapshot, verdict_of


@pytest.mark.parametrize("code", Code)
def test_every_code_has_an_advice_and_a_meaning(code: Code) -> None:
    advice, meaning = MEANING[code]
    assert advice in Advice
    assert len(meaning) > 10
    assert Verdict(SessionId("s"), code, "why").advice is advice


def test_a_code_is_written_as_it_is_named() -> None:
    assert all(code.value == code.name for code in Code)
    assert all(advice.value == advice.name for advice in Advice)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (Code.PLACED, Advice.NOTHING),
        (Code.NOT_ENOUGH_FREE, Advice.WAIT),
        (Code.NEVER_FITS, Advice.CHANGE),
        (Code.QUEUE_CLOSED, Advice.ASK_ADMIN),
        (Code.PLUGIN_FAILED, Advice.BROKEN),
    ],
)
def test_a_code_advises_to_wait_to_change_to_ask_an_admin_or_reports_a_defect(code: Code, advice: Advice) -> None:
    assert MEANING[code][0] is advice


def test_a_funnel_reads_from_all_agents_to_those_that_are_left() -> None:
    assert Funnel(128, 121, 120, 96, 95, 11, 0).sentence() == (
        "agents 128 → alive 121 → architecture 120 → labels 96 → could ever fit 95 → fits now 11 → topology 0"
    )


def test_a_check_needs_no_detail_and_a_verdict_no_numbers() -> None:
    assert Check("concurrency", "ok").detail == ""
    verdict = Verdict(SessionId("s"), Code.PLACED, "placed")
    assert (verdict.funnel, verdict.best_agent, verdict.position, verdict.ahead) == (None, None, 0, ())


def test_a_session_that_waits_gets_a_verdict_with_the_funnel_the_shortfall_and_who_is_ahead() -> None:
    agents = [agent("a", "cpu=4", used="cpu=3"), agent("b", "cpu=1"), agent("c", "cpu=4", architecture="aarch64")]
    plan = decide(snapshot(agents, [session("first", "cpu=3"), session("second", "cpu=2")]))
    verdict = verdict_of(plan, "second")
    assert verdict.code is Code.NOT_ENOUGH_FREE
    assert verdict.funnel == Funnel(all=3, alive=3, architecture=2, labels=2, could_ever_fit=1, fits_now=0, topology=0)
    assert (verdict.best_agent, dict(verdict.shortfall)) == ("a", {"cpu": 1000})
    assert (verdict.position, verdict.ahead) == (1, ("first",))


def test_a_decision_trace_maps_sessions_to_verdicts_in_their_order() -> None:
    second, first = Verdict(SessionId("b"), Code.PLACED, ""), Verdict(SessionId("a"), Code.NO_NODES, "")
    trace = DecisionTrace([second, first])
    assert trace.verdicts == (second, first)
    assert list(trace) == ["b", "a"]
    assert (trace[SessionId("a")], trace.get(SessionId("c")), len(trace)) == (first, None, 2)


def test_a_plan_gives_its_decision_trace() -> None:
    plan = decide(snapshot([agent("a")], [session("s")]))
    assert isinstance(plan.trace, DecisionTrace)
    assert plan.trace.verdicts == plan.verdicts

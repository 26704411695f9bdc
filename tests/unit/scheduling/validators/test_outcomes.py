"""A refused session waits if it may pass later; it is cancelled if it never can."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload
from sokovan.scheduling.trace import Advice, Check, Code, Verdict, final_verdicts
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidationContext, ValidatorRule
from sokovan.scheduling.validators.outcomes import OUTCOMES, Outcome, ValidationFailure, is_final
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    limits,
    registry_with,
    session,
    slot_limits,
    snapshot,
    verdict_of,
)


def never(*sessions: SessionWorkload, **around: Any) -> list[str]:
    """The checks that session `s` can never pass, for a user with a limit of two cpus."""
    seen = snapshot([agent("a", "cpu=64")], sessions, **{"limits": limits(Scope.USER, "alice", "cpu=2"), **around})
    return [check.name for check in verdict_of(decide(seen), "s").never]


def test_a_limit_that_the_session_alone_exceeds_is_final_and_one_in_use_is_not() -> None:
    used = {Scope.USER: {"alice": OwnerUsage(parse_slots("cpu=2"))}}
    assert never(session("s", "cpu=3", user="alice")) == ["user-resource-limit"]
    assert never(session("s", "cpu=1", "cpu=2", user="alice")) == ["user-resource-limit"]
    assert never(session("s", "cpu=2", user="alice"), usage=used) == []
    assert never(session("s", "cpu=3", user="alice", dependencies=(SessionId("p"),))) == ["user-resource-limit"]


def test_an_elastic_session_is_judged_by_the_kernels_that_it_needs() -> None:
    assert never(session("s", "cpu=1", "cpu=2", user="alice", min_kernels=1)) == []


def test_a_limit_on_sessions_is_not_final() -> None:
    around = {"limits": limits(Scope.USER, "alice", sessions_max=0)}
    assert never(session("s", user="alice"), **around) == []


def test_a_pending_limit_is_final_for_a_session_that_exceeds_it_alone() -> None:
    around = {"limits": limits(Scope.USER, "alice", pending_slots_max=slot_limits("cpu=2"))}
    small, large = session("first", "cpu=2", user="alice"), session("s", "cpu=3", user="alice")
    assert never(small, large, **around) == ["pending-session-resource-limit"]
    # There is room for none of them.
    waits = snapshot([agent("a", "cpu=1")], [small, session("s", "cpu=2", user="alice")], **around)
    assert verdict_of(decide(waits), "s").never == ()


def test_a_failed_dependency_is_final_and_one_that_runs_is_not() -> None:
    waits = session("s", dependencies=(SessionId("p"),))
    assert never(waits) == []
    assert never(waits, outcomes={SessionId("p"): False}) == ["dependencies"]


def test_every_case_has_an_outcome_and_a_meaning() -> None:
    assert set(OUTCOMES) == set(ValidationFailure)
    assert all(meaning for _, meaning in OUTCOMES.values())
    assert {refusal for refusal in ValidationFailure if is_final(refusal)} == {
        ValidationFailure.LIMIT_EXCEEDED_ALONE,
        ValidationFailure.PENDING_LIMIT_EXCEEDED_ALONE,
        ValidationFailure.DEPENDENCY_FAILED,
        ValidationFailure.CUSTOM_FINAL,
    }
    assert OUTCOMES[ValidationFailure.LIMIT_IN_USE][0] is Outcome.PENDING


@pytest.mark.parametrize("final", [True, False])
def test_a_custom_validator_says_whether_it_refuses_for_good(*, final: bool) -> None:
    class Cap(ValidatorRule):
        name = "cap"

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            del context
            raise SchedulingValidationError("no", session_id=session.session_id, final=final)

    plan = decide(snapshot([agent("a")], [session("s")]), registry_with(validators={"cap": Cap}), validators=("cap",))
    verdict = verdict_of(plan, "s")
    assert (verdict.code, [check.name for check in verdict.never]) == (Code.REFUSED_BY_PLUGIN, ["cap"] if final else [])
    assert verdict.advice is Advice.CHANGE


def test_final_verdicts_are_found_among_many() -> None:
    shared = (Check("a", "ok"), Check("b", "no"))
    verdicts = [Verdict(SessionId(f"s{number}"), Code.QUOTA_USER, "", shared) for number in range(3)]
    last = Verdict(SessionId("last"), Code.QUOTA_USER, "", (Check("a", "ok"), Check("b", "never")))
    assert final_verdicts([*verdicts, last]) == [last]

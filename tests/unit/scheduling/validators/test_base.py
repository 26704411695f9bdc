"""Validators: they see a session and the current usage, and may object."""

from __future__ import annotations

from typing import ClassVar

import pytest

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklogs
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.base import (
    ConcurrencyLimitExceeded,
    DependencyUnmet,
    NotYetBegun,
    PendingLimitExceeded,
    ResourceLimitExceeded,
    SchedulingValidationError,
    ValidationContext,
    ValidatorRule,
)
from tests.unit.scheduling.little_cluster import (
    agent,
    decide,
    limits,
    registry_with,
    session,
    snapshot,
    started,
    verdict_of,
)


class NamedAfterPlanets(ValidatorRule):
    """A custom validator, as a third party would write it."""

    name: ClassVar[str] = "planets"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        if session.session_id not in {"mars", "venus"}:
            raise SchedulingValidationError(
                f"{session.session_id} is no planet, and it requests {context.request['cpu']}",
                session_id=session.session_id,
            )


PLANETS = registry_with(validators={"planets": NamedAfterPlanets})


def test_a_custom_validator_refuses_with_its_own_text_and_others_go_on() -> None:
    plan = decide(snapshot([agent("a")], [session("pluto"), session("mars")]), PLANETS, validators=("planets",))
    assert started(plan) == ["mars"]
    assert verdict_of(plan, "pluto").code is Code.REFUSED_BY_PLUGIN
    assert verdict_of(plan, "pluto").summary == "pluto is no planet, and it requests 1000"


def test_a_custom_validator_sees_the_usage_as_it_grows_without_any_limit_being_set() -> None:
    class TwoCpusAtMost(ValidatorRule):
        name = "two"

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            used = context.ledger.account(Scope.USER, session.owner.user).used.get("cpu", 0)
            if used + context.request["cpu"] > 2000:
                raise SchedulingValidationError(f"{used} are in use")

    sessions = [session("s"), session("t"), session("u")]
    plan = decide(
        snapshot([agent("a")], sessions), registry_with(validators={"two": TwoCpusAtMost}), validators=("two",)
    )
    assert started(plan) == ["s", "t"]
    assert verdict_of(plan, "u").summary == "2000 are in use"


def test_a_validator_receives_whether_the_session_would_start() -> None:
    called: list[tuple[str, bool]] = []

    class Watches(ValidatorRule):
        name = "watches"

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            called.append((session.session_id, context.starts))

    registry = registry_with(validators={"watches": Watches})
    decide(snapshot([agent("a")], [session("s", "cpu=1", "cpu=1", min_kernels=1)]), registry, validators=("watches",))
    assert called == [("s", True), ("s", False)]


def test_all_objections_are_reported_and_the_first_gives_the_code() -> None:
    bounds = {
        **limits(Scope.KEYPAIR, "alice", "cpu=1", sessions_max=0),
        **limits(Scope.DOMAIN, "default", "cpu=1"),
    }
    late = session("s", "cpu=2", user="alice", dependencies=(SessionId("p"),), starts_at_ms=9000)
    verdict = verdict_of(decide(snapshot([agent("a")], [late], limits=bounds)), "s")
    refused = [check.name for check in verdict.checks if check.result in {"no", "never"}]
    assert refused == [
        "keypair-resource-limit", "domain-resource-limit", "concurrency", "dependencies", "reserved-batch-session",
    ]  # fmt: skip
    assert verdict.code is Code.QUOTA_KEYPAIR
    assert all(check.detail in verdict.summary for check in verdict.checks if check.result == "no")


def test_rules_that_do_not_object_are_listed_as_passed() -> None:
    verdict = verdict_of(decide(snapshot([agent("a")], [session("s", starts_at_ms=9000)])), "s")
    passed = {check.name for check in verdict.checks if check.result == "ok"}
    assert passed == set(BUILT_IN.validators) - {"reserved-batch-session"}


def test_the_context_opens_the_accounts_of_a_sessions_owner() -> None:
    usage = {Scope.KEYPAIR: {"alice": OwnerUsage(parse_slots("cpu=1"), sessions=2)}}
    seen = snapshot([agent("a")], usage=usage)
    account = ValidationContext(seen, OwnerLedger(seen), OwnerBacklogs(seen)).accounts(session("s", user="alice"))[0]
    assert (account.scope, account.name, account.used, account.sessions) == (
        Scope.KEYPAIR, "alice", {"cpu": 1000}, 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "verdict"),
    [
        (SchedulingValidationError, "scheduling-validation", Code.REFUSED_BY_PLUGIN),
        (ConcurrencyLimitExceeded, "concurrency-limit", Code.CONCURRENCY_LIMIT),
        (PendingLimitExceeded, "pending-limit", Code.PENDING_LIMIT),
        (DependencyUnmet, "dependency-unmet", Code.DEPENDENCY),
        (NotYetBegun, "not-yet-begun", Code.NOT_YET_BEGIN),
    ],
)
def test_every_objection_is_a_validation_error_with_a_code_of_its_own(
    error: type[SchedulingValidationError], code: str, verdict: Code
) -> None:
    raised = error("why", session_id=SessionId("s"))
    assert isinstance(raised, SchedulingValidationError)
    assert isinstance(raised, SokovanError)
    assert (raised.code, raised.verdict_code, raised.message, raised.session_id) == (code, verdict, "why", "s")
    assert raised.hint


@pytest.mark.parametrize("scope", Scope)
def test_a_passed_resource_limit_has_the_code_of_its_scope_and_readable_amounts(scope: Scope) -> None:
    raised = ResourceLimitExceeded(scope=scope, owner="x", excess=[("cpu", 1500, 500, 1000), ("mem", 2**30, 0, 512)])
    assert raised.verdict_code is Code[f"QUOTA_{scope.name}"]
    assert raised.message == f"{scope} x requests 1.5 cpu with 0.5 of 1 in use, 1Gi mem with 0 of 512 in use"

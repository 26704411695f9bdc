"""CycleValidators: runs the rules that apply; a failing rule does not stop the cycle."""

from __future__ import annotations

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import SessionType
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidationContext, ValidatorRule
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


class Broken(ValidatorRule):
    """A rule that raises for the name `bad`."""

    name = "broken"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        if session.session_id == "bad":
            raise KeyError(f"no {context.request['cpu']}")


def test_a_rule_that_fails_objects_in_its_own_name_and_other_sessions_go_on() -> None:
    registry = registry_with(validators={"broken": Broken})
    plan = decide(snapshot([agent("a")], [session("bad"), session("good")]), registry, validators=("broken",))
    assert started(plan) == ["good"]
    assert verdict_of(plan, "bad").code is Code.PLUGIN_FAILED
    assert verdict_of(plan, "bad").summary == "validator broken failed: KeyError: 'no 1000'"


def test_the_objections_of_other_rules_stand_beside_one_that_failed() -> None:
    registry = registry_with(validators={"broken": Broken})
    waits = session("bad", dependencies=(SessionId("p"),))
    verdict = verdict_of(
        decide(snapshot([agent("a")], [waits]), registry, validators=("dependencies", "broken")), "bad"
    )
    assert {check.name for check in verdict.checks if check.result == "no"} == {"dependencies", "broken"}


def test_a_rule_that_raises_in_concerns_is_called_all_the_same() -> None:
    class Unsure(ValidatorRule):
        name = "unsure"

        def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
            raise LookupError(f"{session.session_id} in {context.snapshot.now_ms}")

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            raise SchedulingValidationError(f"{session.session_id} may not take {context.request}")

    plan = decide(
        snapshot([agent("a")], [session("s")]), registry_with(validators={"unsure": Unsure}), validators=("unsure",)
    )
    assert started(plan) == []
    assert verdict_of(plan, "s").code is Code.REFUSED_BY_PLUGIN


def test_a_rule_is_not_called_for_sessions_that_it_does_not_concern() -> None:
    called: list[str] = []

    class OnlyBob(ValidatorRule):
        name = "bob"

        def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
            return session.owner.user == "bob" and context.starts

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            del context
            called.append(session.session_id)

    sessions = [session("s", user="alice"), session("t", user="bob"), session("u", user="bob")]
    decide(snapshot([agent("a")], sessions), registry_with(validators={"bob": OnlyBob}), validators=("bob",))
    assert called == ["t", "u"]


def test_a_rule_by_owner_says_once_per_owner_whether_it_is_concerned() -> None:
    called: list[str] = []

    class ByOwner(ValidatorRule):
        name = "owners"
        by_owner = True

        def concerns(self, session: SessionWorkload, context: ValidationContext) -> bool:
            del context
            called.append(session.session_id)
            return True

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            del session, context

    sessions = [session("s", user="alice"), session("t", user="bob"), session("u", user="alice")]
    decide(snapshot([agent("a")], sessions), registry_with(validators={"owners": ByOwner}), validators=("owners",))
    assert called == ["s", "t"]


def test_a_rule_that_looks_at_one_field_is_called_only_where_the_field_is_set() -> None:
    called: list[str] = []

    class LooksAtTime(ValidatorRule):
        name = "time"
        looks_at = "starts_at_ms"

        def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
            del context
            called.append(session.session_id)

    sessions = [session("s"), session("t", starts_at_ms=5)]
    decide(snapshot([agent("a")], sessions), registry_with(validators={"time": LooksAtTime}), validators=("time",))
    assert called == ["t"]


def test_rules_are_listed_as_passed_in_the_order_of_the_profile() -> None:
    profile = SchedulingProfile(validators=("dependencies", "concurrency"))
    verdict = verdict_of(schedule(snapshot([agent("a")], [session("s")]), profile), "s")
    assert [(check.name, check.result) for check in verdict.checks] == [("dependencies", "ok"), ("concurrency", "ok")]


def test_a_profile_without_validators_refuses_nothing() -> None:
    plan = decide(snapshot([agent("a")], [session("s", dependencies=(SessionId("p"),))]), validators=())
    assert started(plan) == ["s"]
    assert verdict_of(plan, "s").checks == ()


def test_rules_are_called_for_kernels_without_a_request_too() -> None:
    sessions = [
        session("late", "", starts_at_ms=5),
        session("waits", "", dependencies=(SessionId("p"),)),
        session("one", "", user="alice"),
        session("two", "", user="alice"),
    ]
    bounds = limits(Scope.KEYPAIR, "alice", sessions_max=1)
    plan = decide(snapshot([agent("a")], sessions, limits=bounds))
    assert started(plan) == ["one"]
    assert [verdict_of(plan, name).code for name in ("late", "waits", "two")] == [
        Code.NOT_YET_BEGIN, Code.DEPENDENCY, Code.CONCURRENCY_LIMIT,
    ]  # fmt: skip


def test_a_system_session_passes_every_quota_and_uses_none() -> None:
    bounds = limits(Scope.USER, "alice", "cpu=1", sessions_max=1, pending_sessions_max=0)
    system = session("system", "cpu=2", user="alice", session_type=SessionType.SYSTEM)
    plan = decide(snapshot([agent("a")], [session("other", user="alice"), system], limits=bounds))
    assert started(plan) == ["system"]
    free = limits(Scope.USER, "alice", "cpu=1", sessions_max=1)
    plan = decide(snapshot([agent("a")], [session("other", user="alice"), system], limits=free))
    assert sorted(started(plan)) == ["other", "system"]


def test_a_system_session_still_waits_for_its_dependencies() -> None:
    waits = session("system", session_type=SessionType.SYSTEM, dependencies=(SessionId("p"),))
    assert verdict_of(decide(snapshot([agent("a")], [waits])), "system").code is Code.DEPENDENCY


def test_a_system_session_is_placed_before_all_others() -> None:
    system = session("system", "cpu=4", session_type=SessionType.SYSTEM, queue="low")
    ahead = session("ahead", "cpu=4", priority=100)
    assert started(decide(snapshot([agent("a")], [ahead, system]))) == ["system"]

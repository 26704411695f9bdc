"""The health of an agent, as a function of what happened on it."""

from typing import Any

import pytest

from sokovan.domain.cluster.agent_health import (
    FAULT_LENGTH_MAX,
    FAULTS_MAX,
    HEALTHY,
    AgentFailure,
    AgentHealth,
    HealthLimits,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import SessionId

LIMITS = HealthLimits()
MINUTE_MS = 60_000


def failure(session: str, *, user: str = "", at_ms: int = 1_000) -> AgentFailure:
    return AgentFailure(SessionId(session), user or f"user-{session}", "creation-refused", "no space", at_ms)


def failed(*failures: AgentFailure, before: AgentHealth = HEALTHY, now_ms: int = 2_000) -> AgentHealth:
    return before.failed(failures, LIMITS, now_ms=now_ms)


def test_sessions_of_several_users_make_an_agent_failing() -> None:
    two = failed(failure("s1"), failure("s2"))
    assert (two.is_failing, two.probe_due_ms(LIMITS)) == (False, None)
    three = failed(failure("s3"), before=two)
    assert (three.failing_ms, three.rounds, three.probe_due_ms(LIMITS)) == (2_000, 1, 12_000)


def test_a_session_counts_once_however_often_it_was_tried() -> None:
    health = failed(*(failure("s1", at_ms=at_ms) for at_ms in range(10)), failure("s2"))
    assert len(health.failures) == 2
    assert not health.is_failing


def test_sessions_of_one_user_only_cause_a_probe() -> None:
    health = failed(*(failure(f"s{number}", user="eve") for number in range(9)))
    assert (health.is_failing, health.probe_due_ms(LIMITS)) == (False, 0)
    assert health.probed(succeeded=False, now_ms=3_000).failing_ms == 3_000
    assert health.probed(succeeded=True, now_ms=3_000).failures == ()


def test_failures_before_a_start_do_not_count_any_more() -> None:
    two = failed(failure("s1"), failure("s2"))
    after = two.started(1_500)
    assert (after.failures, after.clean_ms) == ((), 1_500)
    assert failed(failure("s1"), failure("s2"), before=after).failures == ()
    assert HEALTHY.started(1_500) is HEALTHY


def test_failures_outside_the_window_do_not_count_any_more() -> None:
    old = failed(failure("s1"), failure("s2"))
    later = failed(failure("s3", at_ms=11 * MINUTE_MS), before=old, now_ms=11 * MINUTE_MS)
    assert [one.session_id for one in later.failures] == ["s3"]


def test_a_start_that_was_earlier_than_the_removal_proves_nothing() -> None:
    failing = failed(failure("s1"), failure("s2"), failure("s3"))
    assert failing.started(2_000) is failing
    assert not failing.started(2_001).is_failing


def test_the_time_between_probes_grows_until_a_session_starts() -> None:
    health, waits = failed(failure("s1"), failure("s2"), failure("s3")), []
    for _ in range(8):
        due_ms = health.probe_due_ms(LIMITS)
        assert due_ms is not None
        waits.append(due_ms - (health.probed_ms or 0))
        health = health.probed(succeeded=False, now_ms=due_ms)
    assert waits == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000, 600_000]
    passed = health.probed(succeeded=True, now_ms=9_000_000)
    assert (passed.is_failing, passed.rounds) == (False, 9)
    assert passed.started(9_000_001).rounds == 0


def test_an_operator_clears_it() -> None:
    failing = failed(failure("s1"), failure("s2"), failure("s3"))
    assert failing.cleared(5_000) == AgentHealth(clean_ms=5_000)


def test_the_reason_names_no_user() -> None:
    failing = failed(failure("s1"), failure("s2"), failure("s3"))
    assert failing.reason == "3 sessions in a row could not be started: creation-refused"
    assert AgentHealth().reason == "its probe failed"


def test_the_number_of_failures_is_bounded() -> None:
    many = failed(*(failure(f"s{number:03}", user="eve", at_ms=number) for number in range(1, 100)))
    assert len(many.failures) == 16
    assert many.failures[-1].session_id == "s099"


@pytest.mark.parametrize("wrong", [{"sessions": 0}, {"sessions": 17}, {"window_s": 0}, {"probe_timeout_s": 0}])
def test_limits_outside_their_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        HealthLimits(**wrong)


def test_faults_of_devices_outlast_starts_probes_and_operators() -> None:
    faulty = failed(failure("s1"), failure("s2"), failure("s3")).with_faults({"gpu1": "lost", "gpu0": "x" * 999})
    assert faulty.faults == (("gpu0", "x" * FAULT_LENGTH_MAX), ("gpu1", "lost"))
    for after in (faulty.started(9_000), faulty.cleared(9_000), faulty.probed(succeeded=True, now_ms=9_000)):
        assert after.faults == faulty.faults
        assert not after.is_failing
    assert faulty.with_faults({}).faults == ()


def test_no_more_faults_than_a_limit_are_kept() -> None:
    assert len(HEALTHY.with_faults({f"gpu{number}": "lost" for number in range(FAULTS_MAX + 9)}).faults) == FAULTS_MAX

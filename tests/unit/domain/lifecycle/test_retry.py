"""After a failure: try again, let it expire, or give up."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.retry import RetryPolicy, RetryVerdict, classify

POLICY = RetryPolicy(attempts_max=3, timeout_s=60, delay_first_ms=500, delay_max_ms=30_000)


@pytest.mark.parametrize(
    ("attempts", "elapsed_s", "verdict"),
    [
        (1, 5, RetryVerdict.RETRY),
        (2, 60, RetryVerdict.RETRY),
        (2, 61, RetryVerdict.EXPIRE),
        (3, 5, RetryVerdict.GIVE_UP),
        (9, 5, RetryVerdict.GIVE_UP),
    ],
)
def test_a_step_is_retried_until_it_failed_too_often_or_took_too_long(
    attempts: int, elapsed_s: int, verdict: RetryVerdict
) -> None:
    assert classify(attempts=attempts, elapsed_s=elapsed_s, policy=POLICY) is verdict


def test_giving_up_comes_before_expiring() -> None:
    assert classify(attempts=3, elapsed_s=1000, policy=POLICY) is RetryVerdict.GIVE_UP


def test_without_a_time_out_time_alone_never_ends_a_step() -> None:
    assert classify(attempts=1, elapsed_s=10**9, policy=RetryPolicy()) is RetryVerdict.RETRY


def test_each_wait_is_twice_the_last_up_to_a_ceiling() -> None:
    waits = [POLICY.delay_ms(attempt) for attempt in range(1, 10)]
    assert waits == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]


def test_the_first_wait_is_also_that_before_any_failure() -> None:
    assert POLICY.delay_ms(0) == POLICY.delay_ms(1) == 500


def test_a_thousand_failures_wait_no_longer_than_the_ceiling() -> None:
    assert POLICY.delay_ms(10**9) == 30_000
    assert RetryPolicy(delay_first_ms=1, delay_max_ms=7).delay_ms(10**9) == 7


def test_no_wait_stays_no_wait() -> None:
    assert RetryPolicy(delay_first_ms=0, delay_max_ms=0).delay_ms(7) == 0


def test_the_usual_policy_is_five_attempts_half_a_second_to_half_a_minute_apart() -> None:
    assert RetryPolicy() == RetryPolicy(attempts_max=5, timeout_s=None, delay_first_ms=500, delay_max_ms=30_000)


def test_the_strictest_policy_is_one_attempt_within_a_second() -> None:
    strict = RetryPolicy(attempts_max=1, timeout_s=1)
    assert classify(attempts=1, elapsed_s=0, policy=strict) is RetryVerdict.GIVE_UP


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attempts_max", 0),
        ("attempts_max", True),
        ("timeout_s", 0),
        ("timeout_s", 1.5),
        ("delay_first_ms", -1),
        ("delay_max_ms", 499),
    ],
)
def test_a_policy_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=f"retry policy: {field} = {value}"):
        RetryPolicy(**{field: value})

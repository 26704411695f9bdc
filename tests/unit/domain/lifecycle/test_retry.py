"""After a failed start: another agent, a later time, or the end."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.lifecycle.retry import RetryDelay, RetryPolicy, RetryVerdict


def test_a_start_is_attempted_three_times_on_other_agents() -> None:
    verdicts = [RetryPolicy().verdict(attempt) for attempt in (1, 2, 3, 9)]
    assert verdicts == [RetryVerdict.ELSEWHERE, RetryVerdict.ELSEWHERE, RetryVerdict.GIVE_UP, RetryVerdict.GIVE_UP]


def test_without_elsewhere_a_start_is_attempted_later() -> None:
    assert RetryPolicy(elsewhere=False).verdict(1) is RetryVerdict.LATER


def test_one_attempt_means_no_retry() -> None:
    assert RetryPolicy(attempts=1).verdict(1) is RetryVerdict.GIVE_UP


def test_the_backoff_of_a_policy_doubles_up_to_an_hour() -> None:
    policy = RetryPolicy(attempts=10, backoff_s=1000)
    assert [policy.backoff_ms(attempt) for attempt in (1, 2, 3)] == [1_000_000, 2_000_000, 3_600_000]
    assert RetryPolicy(backoff_s=0).backoff_ms(3) == 0


DELAY = RetryDelay(first_ms=500, most_ms=30_000)


def test_each_delay_is_twice_the_last_up_to_a_maximum() -> None:
    delays = [DELAY.delay_ms(failures) for failures in range(1, 10)]
    assert delays == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    assert RetryDelay() == DELAY


def test_the_first_delay_is_also_that_before_any_failure() -> None:
    assert DELAY.delay_ms(0) == DELAY.delay_ms(1) == 500


def test_a_billion_failures_wait_no_longer_than_the_maximum() -> None:
    assert DELAY.delay_ms(10**9) == 30_000
    assert RetryDelay(first_ms=1, most_ms=7).delay_ms(10**9) == 7


def test_no_delay_stays_no_delay() -> None:
    assert RetryDelay(first_ms=0, most_ms=0).delay_ms(7) == 0


@pytest.mark.parametrize(("field", "value"), [("first_ms", -1), ("most_ms", 499), ("most_ms", True)])
def test_a_backoff_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=f"retry delay: {field} = {value}"):
        RetryDelay(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("attempts", 0), ("attempts", 11), ("attempts", True), ("backoff_s", -1), ("backoff_s", 3601), ("elsewhere", 1)],
)
def test_a_policy_out_of_bounds_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=f"retry policy: {field} = {value}"):
        RetryPolicy(**{field: value})

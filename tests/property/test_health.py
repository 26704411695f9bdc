"""The health counter against a model that keeps every answer and looks back."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.serving.health import Health, HealthCounter, HealthPolicy


class Answer(NamedTuple):
    ok: bool
    at_ms: int


POLICY = HealthPolicy(successes_needed=2, failures_needed=3, ttl_ms=100)

# Steps back in time are late answers; steps beyond 100 ms make what was seen before stale.
steps = st.lists(st.tuples(st.booleans(), st.sampled_from([-150, -1, 0, 1, 40, 100, 101, 300])), max_size=40)
policies = st.builds(HealthPolicy, st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 50, 100]))


def answers_of(drawn: list[tuple[bool, int]]) -> list[Answer]:
    answers, now_ms = [], 1000
    for ok, step_ms in drawn:
        answers.append(Answer(ok, now_ms + step_ms))
        now_ms = max(now_ms, now_ms + step_ms)
    return answers


def counted(answers: list[Answer], policy: HealthPolicy) -> HealthCounter:
    counter = HealthCounter()
    for answer in answers:
        counter = counter.observe(ok=answer.ok, at_ms=answer.at_ms, policy=policy)
    return counter


def in_time(answers: list[Answer]) -> list[Answer]:
    """The answers that were not older than one seen before."""
    return [
        answer
        for seen, answer in enumerate(answers)
        if all(earlier.at_ms <= answer.at_ms for earlier in answers[:seen])
    ]


def unbroken(answers: list[Answer], policy: HealthPolicy) -> list[Answer]:
    """The last answers that follow on one another without a gap longer than the time to live."""
    start = 0
    for at in range(1, len(answers)):
        if answers[at].at_ms - answers[at - 1].at_ms > policy.ttl_ms:
            start = at
    return answers[start:]


def naive_health(answers: list[Answer], policy: HealthPolicy) -> Health:
    """Look back from the end for the last run of equal answers that was long enough."""
    relied_upon = unbroken(in_time(answers), policy)
    for end in range(len(relied_upon), 0, -1):
        upto = [answer.ok for answer in relied_upon[:end]]
        if upto[-policy.successes_needed :] == [True] * policy.successes_needed:
            return Health.HEALTHY
        if upto[-policy.failures_needed :] == [False] * policy.failures_needed:
            return Health.UNHEALTHY
    return Health.UNKNOWN


@given(steps)
def test_two_successes_or_three_failures_in_a_row_turn_the_verdict(drawn: list[tuple[bool, int]]) -> None:
    answers = answers_of(drawn)
    assert counted(answers, POLICY).verdict == naive_health(answers, POLICY)


@given(steps, policies)
def test_any_policy_counts_as_the_model_does(drawn: list[tuple[bool, int]], policy: HealthPolicy) -> None:
    answers = answers_of(drawn)
    assert counted(answers, policy).verdict == naive_health(answers, policy)


@given(steps, st.integers(0, 400))
def test_what_is_older_than_its_time_to_live_is_unknown(drawn: list[tuple[bool, int]], waited_ms: int) -> None:
    counter = counted(answers_of(drawn), POLICY)
    later = counter.as_of((counter.seen_at_ms or 0) + waited_ms, POLICY)
    assert later.verdict == (counter.verdict if waited_ms <= POLICY.ttl_ms else Health.UNKNOWN)


@given(steps)
def test_late_answers_change_nothing(drawn: list[tuple[bool, int]]) -> None:
    answers = answers_of(drawn)
    assert counted(answers, POLICY) == counted(in_time(answers), POLICY)


@given(steps, st.booleans())
def test_enough_equal_answers_settle_the_verdict_whatever_came_before(drawn: list[tuple[bool, int]], ok: bool) -> None:
    answers = answers_of(drawn)
    now_ms = max((answer.at_ms for answer in answers), default=0)
    settled = counted([*answers, *[Answer(ok, now_ms)] * 3], POLICY)
    assert settled.verdict is (Health.HEALTHY if ok else Health.UNHEALTHY)

"""Endpoint health: thresholds, staleness and unknown results."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.health import Health, HealthCounter, HealthPolicy, is_health_path

POLICY = HealthPolicy(successes_needed=2, failures_needed=3, ttl_ms=30_000)


def after(answers: str, *, every_ms: int = 1000, start: HealthCounter | None = None) -> HealthCounter:
    """The counter after a row of answers, `+` for a success and `-` for a failure."""
    counter = start or HealthCounter()
    for answer in answers:
        at_ms = (counter.seen_at_ms or 0) + every_ms
        counter = counter.observe(ok=answer == "+", at_ms=at_ms, policy=POLICY)
    return counter


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ("", Health.UNKNOWN),
        ("+", Health.UNKNOWN),
        ("++", Health.HEALTHY),
        ("--", Health.UNKNOWN),
        ("---", Health.UNHEALTHY),
        ("+-+-+-", Health.UNKNOWN),
        ("++--", Health.HEALTHY),
        ("++--+--", Health.HEALTHY),
        ("++---", Health.UNHEALTHY),
        ("---+", Health.UNHEALTHY),
        ("---+-+", Health.UNHEALTHY),
        ("---++", Health.HEALTHY),
    ],
)
def test_answers_in_a_row_turn_the_verdict_and_single_ones_do_not(answers: str, verdict: Health) -> None:
    assert after(answers).verdict is verdict


def test_a_verdict_holds_for_its_time_to_live_and_not_a_moment_longer() -> None:
    healthy = after("++")
    seen_at_ms = healthy.seen_at_ms or 0
    assert healthy.as_of(seen_at_ms + 30_000, POLICY).verdict is Health.HEALTHY
    assert healthy.as_of(seen_at_ms + 30_001, POLICY).verdict is Health.UNKNOWN


def test_a_counter_that_saw_nothing_does_not_age() -> None:
    assert HealthCounter().as_of(10**12, POLICY) == HealthCounter()


def test_after_a_silence_the_count_begins_anew() -> None:
    assert after("+", every_ms=40_000, start=after("++")).verdict is Health.UNKNOWN
    assert after("+", start=after("+", every_ms=40_000, start=after("++"))).verdict is Health.HEALTHY


def test_an_answer_that_comes_late_changes_nothing() -> None:
    healthy = after("++")
    assert healthy.observe(ok=False, at_ms=(healthy.seen_at_ms or 0) - 1, policy=POLICY) is healthy


def test_two_answers_at_the_same_moment_both_count() -> None:
    assert after("++", every_ms=0).verdict is Health.HEALTHY


def test_the_usual_policy_is_two_successes_three_failures_thirty_seconds() -> None:
    assert HealthPolicy() == POLICY


def test_a_policy_may_be_stricter() -> None:
    strict = HealthPolicy(successes_needed=1, failures_needed=1, ttl_ms=1)
    assert HealthCounter().observe(ok=True, at_ms=0, policy=strict).verdict is Health.HEALTHY


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models?ready=1", "/" + "x" * 255])
def test_a_health_path_is_a_path(path: str) -> None:
    assert is_health_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "health",
        "//evil.example",
        "http://evil.example/",
        "/a b",
        "/a\r\nHost: evil",
        "/é",
        "/" + "x" * 256,
        None,
        7,
    ],
)
def test_a_probe_is_not_led_elsewhere_by_its_path(path: object) -> None:
    assert not is_health_path(path)

"""Which endpoints fail again and again, and whose fault that may be."""

from __future__ import annotations

from sokovan.proxy.routing.recent_answers import FORGOTTEN_MS, PERSISTS_MS, RecentAnswers


def answer(recent: RecentAnswers, now_ms: int, *, good: bool) -> None:
    if good:
        recent.succeeded(now_ms)
    else:
        recent.failed(now_ms, "reset")


def failing_since(now_ms: int, *, failures: int = 10) -> RecentAnswers:
    recent = RecentAnswers()
    for _ in range(failures):
        recent.failed(now_ms, "reset")
    return recent


def test_ten_failures_in_a_row_and_one_more_later_are_failing_if_another_endpoint_answers() -> None:
    recent = failing_since(1_000)
    recent.answered_elsewhere()
    assert not recent.failing(1_000), "the end of a process breaks many answers at once"
    recent.failed(1_000 + PERSISTS_MS, "reset")
    assert recent.failing(1_000 + PERSISTS_MS)
    assert recent.counts(1_000 + PERSISTS_MS) == (11, 11)


def test_what_fails_everywhere_is_not_the_fault_of_the_endpoint() -> None:
    recent = failing_since(1_000)
    recent.failed(1_000 + 2 * PERSISTS_MS, "reset")
    assert not recent.failing(1_000 + 2 * PERSISTS_MS)


def test_an_endpoint_that_answers_some_is_failing_at_three_quarters() -> None:
    recent = RecentAnswers()
    recent.answered_elsewhere()
    for number in range(60):
        answer(recent, 1_000 * number, good=number % 4 == 0)
    assert recent.failing(60_000)
    for number in range(60, 120):
        answer(recent, 1_000 * number, good=number % 3 == 0)
    assert not recent.failing(120_000), "two thirds are not enough"


def test_a_success_after_failures_in_a_row_ends_it_and_old_answers_are_forgotten() -> None:
    recent, late = failing_since(1_000), failing_since(1_000)
    again_ms = 1_000 + PERSISTS_MS
    for one in (recent, late):
        one.answered_elsewhere()
        one.failed(again_ms, "status 500")
    recent.succeeded(again_ms)
    assert not recent.failing(again_ms)

    assert late.failing(again_ms + FORGOTTEN_MS)
    assert late.cause == "status 500"
    forgotten_ms = again_ms + FORGOTTEN_MS + 1
    assert (late.failing(forgotten_ms), late.counts(forgotten_ms)) == (False, (0, 0))
    late.succeeded(forgotten_ms)
    assert late.counts(forgotten_ms) == (1, 0)

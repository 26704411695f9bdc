"""Whether to try again, when, and until when."""

from __future__ import annotations

import pytest

from sokovan.sdk.core.retries import Attempts, CallDeadline, RetryRule, may_repeat
from sokovan.sdk.errors import ClientProblem, StillWaiting, UnexpectedAnswer, Unreachable, api_problem
from sokovan.wire.api.system import ProblemView
from tests.unit.sdk.fake_server import FakeClock


def api_failure(status: int, *, retry_after_s: float | None = None) -> ClientProblem:
    """A problem of the server."""
    view = ProblemView(type="", title="", status=status, detail="d", code="c")
    return api_problem(view, retry_after_s=retry_after_s)


def test_waits_grow_and_are_bounded() -> None:
    rule = RetryRule(attempts_max=6, first_s=1, longest_s=5, total_s=100)
    waits = [rule.wait_s(attempt=attempt, spent_s=0, jitter=1) for attempt in range(1, 7)]
    assert waits == [1, 2, 4, 5, 5, None]


def test_chance_halves_a_wait_at_most() -> None:
    assert RetryRule(first_s=1).wait_s(attempt=1, spent_s=0, jitter=0) == 0.5


def test_the_server_may_ask_for_more_patience() -> None:
    assert RetryRule(first_s=1).wait_s(attempt=1, spent_s=0, jitter=1, retry_after_s=7) == 7


def test_no_wait_leads_past_the_whole() -> None:
    assert RetryRule(total_s=10).wait_s(attempt=1, spent_s=9, jitter=1, retry_after_s=7) is None


@pytest.mark.parametrize(
    ("problem", "repeatable", "again"),
    [
        (Unreachable("x"), True, True),
        (Unreachable("x"), False, False),
        (Unreachable("x", sent=False), False, True),
        (api_failure(429), True, True),
        (api_failure(503), True, True),
        (api_failure(503), False, False),
        (api_failure(500), True, False),
        (api_failure(404), True, False),
        (UnexpectedAnswer("x"), True, False),
    ],
)
def test_only_safe_requests_are_sent_again(problem: ClientProblem, *, repeatable: bool, again: bool) -> None:
    assert may_repeat(problem, repeatable=repeatable) is again


def test_attempts_end_with_the_problem_itself() -> None:
    attempts, problem = Attempts(RetryRule(attempts_max=3, first_s=1), FakeClock()), Unreachable("x")
    assert [attempts.wait_s(problem), attempts.wait_s(problem)] == [1, 2]
    with pytest.raises(Unreachable):
        attempts.wait_s(problem)


def test_a_success_forgets_the_failures() -> None:
    attempts, problem = Attempts(RetryRule(attempts_max=2, first_s=1), FakeClock()), Unreachable("x")
    attempts.wait_s(problem)
    attempts.succeeded()
    assert attempts.wait_s(problem) == 1


def test_a_deadline_comes_when_time_is_up() -> None:
    clock = FakeClock()
    deadline = CallDeadline(5, clock)
    clock.sleep(4)
    deadline.check()
    assert deadline.left_s() == 1
    clock.sleep(2)
    assert deadline.left_s() == 0
    with pytest.raises(StillWaiting):
        deadline.check()


def test_without_a_deadline_time_is_never_up() -> None:
    deadline = CallDeadline(None, FakeClock())
    deadline.check()
    assert deadline.left_s() is None

"""Retry rules: whether to retry, the backoff, and deadlines; without sleeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sokovan.sdk.environment import ClientEnvironment
from sokovan.sdk.errors import ApiProblem, ClientProblem, StillWaiting, Unreachable

# The server did not process the request and allows a retry.
_RETRYABLE = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Number of attempts, backoff, and total time."""

    attempts_max: int = 4
    first_s: float = 0.1
    longest_s: float = 5.0
    total_s: float = 30.0

    def wait_s(
        self, *, attempt: int, spent_s: float, jitter: float, retry_after_s: float | None = None
    ) -> float | None:
        """Backoff after this failed attempt (from 1); None: give up."""
        if attempt >= self.attempts_max:
            return None
        # Half of it is random: clients that failed together do not retry together.
        backoff = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + jitter / 2)
        wait = max(backoff, retry_after_s or 0.0)
        return wait if spent_s + wait <= self.total_s else None


# Reads give up within seconds.
READS = RetryRule()
# Requests that must not happen twice are tried once.
ONCE = RetryRule(attempts_max=1)
# Streams survive a restart of the server.
STREAMS = RetryRule(attempts_max=60, first_s=0.2, longest_s=2.0, total_s=60.0)


# Called with each failure that is followed by a retry.
OnRetry = Callable[[ClientProblem], None]


def may_repeat(problem: ClientProblem, *, repeatable: bool) -> bool:
    """Whether a request that failed with this problem may be sent again."""
    if isinstance(problem, Unreachable):
        return repeatable or not problem.sent
    return repeatable and isinstance(problem, ApiProblem) and problem.status in _RETRYABLE


class Attempts:
    """Counts the failed attempts of one request or stream."""

    def __init__(self, rule: RetryRule, environment: ClientEnvironment, *, on_retry: OnRetry | None = None) -> None:
        self._rule, self._environment, self._on_trouble = rule, environment, on_retry
        self.succeeded()

    def succeeded(self) -> None:
        """Reset the count after a success."""
        self._failures, self._begun_s = 0, self._environment.now_s()

    def wait_s(self, problem: ClientProblem, *, repeatable: bool = True) -> float:
        """Backoff before the next attempt. Raises the problem if there is none left."""
        self._failures += 1
        wait = self._rule.wait_s(
            attempt=self._failures,
            spent_s=self._environment.now_s() - self._begun_s,
            jitter=self._environment.jitter(),
            retry_after_s=problem.retry_after_s if isinstance(problem, ApiProblem) else None,
        )
        if wait is None or not may_repeat(problem, repeatable=repeatable):
            raise problem
        if self._on_trouble is not None:
            self._on_trouble(problem)
        return wait


class CallDeadline:
    """Deadline of a call; without a timeout there is none."""

    def __init__(self, timeout_s: float | None, environment: ClientEnvironment) -> None:
        self._environment = environment
        self._at_s = None if timeout_s is None else environment.now_s() + timeout_s

    def left_s(self) -> float | None:
        """Seconds left; None without a deadline."""
        return None if self._at_s is None else max(0.0, self._at_s - self._environment.now_s())

    def check(self) -> None:
        """Raise StillWaiting after the deadline."""
        if self.left_s() == 0:
            raise StillWaiting("the timeout has expired")

"""Classifies a failed step: retry, expire or give up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int


class RetryVerdict(StrEnum):
    """The outcomes of classifying a failure."""

    RETRY = auto()
    EXPIRE = auto()
    GIVE_UP = auto()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a step may be tried.

    With `timeout_s` None the step has no time limit.
    """

    attempts_max: int = 5
    timeout_s: int | None = None
    delay_first_ms: int = 500
    delay_max_ms: int = 30_000

    def __post_init__(self) -> None:
        bounds = (("attempts_max", 1), ("delay_first_ms", 0), ("delay_max_ms", self.delay_first_ms))
        for field, least in bounds:
            require_int(getattr(self, field), what="retry policy", field=field, least=least)
        if self.timeout_s is not None:
            require_int(self.timeout_s, what="retry policy", field="timeout_s", least=1)

    def delay_ms(self, attempt: int) -> int:
        """The backoff after the `attempt`-th failure: doubling, up to a maximum."""
        doublings = min(max(attempt, 1) - 1, self.delay_max_ms.bit_length())
        return min(self.delay_max_ms, self.delay_first_ms << doublings)


def classify(*, attempts: int, elapsed_s: int, policy: RetryPolicy) -> RetryVerdict:
    """Classify a failure after `attempts` tries in `elapsed_s` seconds.

    Giving up is checked first: a step that failed too often is broken, however quickly it
    failed. Waiting for a resource is not counted as an attempt.
    """
    if attempts >= policy.attempts_max:
        return RetryVerdict.GIVE_UP
    if policy.timeout_s is not None and elapsed_s > policy.timeout_s:
        return RetryVerdict.EXPIRE
    return RetryVerdict.RETRY

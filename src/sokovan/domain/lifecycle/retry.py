"""Retry of sessions whose start failed, and backoff between attempts of anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.checks import require_int, require_kind

ATTEMPTS_MAX = 10
BACKOFF_S_MAX = 3600


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """The delay after failures in a row: doubling, up to a maximum."""

    first_ms: int = 500
    most_ms: int = 30_000

    def __post_init__(self) -> None:
        for field, least in (("first_ms", 0), ("most_ms", self.first_ms)):
            require_int(getattr(self, field), what="retry delay", field=field, least=least)

    def delay_ms(self, failures: int) -> int:
        """The delay after the `failures`-th failure."""
        doublings = min(max(failures, 1) - 1, self.most_ms.bit_length())
        return min(self.most_ms, self.first_ms << doublings)


class RetryVerdict(StrEnum):
    """The outcomes of a failed start: another agent, a later time, or the end."""

    ELSEWHERE = auto()
    LATER = auto()
    GIVE_UP = auto()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often the start of a session is attempted, when, and where.

    With `elsewhere`, other agents are tried at once, and the agent that failed only after
    the backoff. Without it, the session waits for the backoff, and may use any agent.
    """

    attempts: int = 3
    backoff_s: int = 5
    elsewhere: bool = True

    def __post_init__(self) -> None:
        require_int(self.attempts, what="retry policy", field="attempts", least=1, most=ATTEMPTS_MAX)
        require_int(self.backoff_s, what="retry policy", field="backoff_s", least=0, most=BACKOFF_S_MAX)
        require_kind(self.elsewhere, bool, what="retry policy", field="elsewhere")

    def verdict(self, attempt: int) -> RetryVerdict:
        """The outcome if the `attempt`-th attempt fails."""
        if attempt >= self.attempts:
            return RetryVerdict.GIVE_UP
        return RetryVerdict.ELSEWHERE if self.elsewhere else RetryVerdict.LATER

    def backoff_ms(self, attempt: int) -> int:
        """How long the failed agent, or all agents, are avoided after an attempt."""
        return RetryDelay(self.backoff_s * 1000, BACKOFF_S_MAX * 1000).delay_ms(attempt)

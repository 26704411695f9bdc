"""Quarantines objects whose handler raised: retried with backoff, then given up.

Only failures of the coordinator's own work count; an unreachable agent is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.orchestrator.agent_requests import code_and_detail
from sokovan.ports.environment import Clock


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An object whose handler raised; `exhausted` once all retries have failed."""

    subject: str
    handler: str
    code: str
    detail: str
    exhausted: bool


@dataclass(frozen=True, slots=True)
class QuarantineLimits:
    """How often an object may fail before it is given up, and the backoff until then."""

    failures_max: int = 5
    delay: RetryDelay = field(default_factory=RetryDelay)


@dataclass(slots=True)
class _Record:
    failures: int
    retry_ms: int


class Quarantine:
    """Keeps failing objects from being handled in every cycle."""

    def __init__(self, clock: Clock, *, limits: QuarantineLimits | None = None) -> None:
        limits = limits or QuarantineLimits()
        self._clock, self._failures_max, self._delay = clock, limits.failures_max, limits.delay
        self._records: dict[str, _Record] = {}
        self._new: list[FailedItem] = []

    def admits(self, subject: str) -> bool:
        """Whether the object may be handled now."""
        record = self._records.get(subject)
        return record is None or record.retry_ms <= self._clock.monotonic_ms()

    def failed(self, subject: str, *, handler: str, error: Exception) -> None:
        """Record that handling the object raised; it is skipped for a while."""
        known = self._records.get(subject)
        failures = 1 if known is None else known.failures + 1
        delay_ms = self._delay.delay_ms(failures)
        self._records[subject] = _Record(failures, self._clock.monotonic_ms() + delay_ms)
        code, detail = code_and_detail(error)
        self._new.append(FailedItem(subject, handler, code, detail, exhausted=failures >= self._failures_max))

    def recovered(self, subject: str) -> None:
        """Release an object that moved or is gone."""
        self._records.pop(subject, None)

    def take(self) -> list[FailedItem]:
        """The failures since the last call."""
        new, self._new = self._new, []
        return new

    def next_due_s(self) -> float | None:
        """Seconds until the first retry; None if none is due later."""
        now_ms = self._clock.monotonic_ms()
        ahead = [record.retry_ms for record in self._records.values() if record.retry_ms > now_ms]
        return (min(ahead) - now_ms) / 1000 if ahead else None

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._new.clear()

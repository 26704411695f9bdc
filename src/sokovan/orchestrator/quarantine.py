"""Objects whose handling fails: tried again later, and given up in the end.

What fails here is our own work on an object, not the object's fate: an agent that
does not answer is no failure of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.domain.lifecycle.retry import RetryPolicy, RetryVerdict, classify
from sokovan.orchestrator.agent_requests import said
from sokovan.ports.environment import Clock


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An object that could not be handled; `hopeless` once it failed too often."""

    subject: str
    handler: str
    code: str
    detail: str
    hopeless: bool


@dataclass(slots=True)
class _Record:
    failures: int
    again_ms: int


class Quarantine:
    """Keeps objects that fail from being tried at every round."""

    def __init__(self, clock: Clock, *, policy: RetryPolicy | None = None) -> None:
        self._clock, self._policy = clock, policy or RetryPolicy()
        self._records: dict[str, _Record] = {}
        self._new: list[FailedItem] = []

    def admits(self, subject: str) -> bool:
        """Whether the object may be handled now."""
        record = self._records.get(subject)
        return record is None or record.again_ms <= self._clock.monotonic_ms()

    def failed(self, subject: str, *, handler: str, error: Exception) -> None:
        """Handling it raised; it rests for a while."""
        known = self._records.get(subject)
        failures = 1 if known is None else known.failures + 1
        verdict = classify(attempts=failures, elapsed_s=0, policy=self._policy)
        delay_ms = self._policy.delay_ms(failures)
        self._records[subject] = _Record(failures, self._clock.monotonic_ms() + delay_ms)
        code, detail = said(error)
        self._new.append(FailedItem(subject, handler, code, detail, hopeless=verdict is RetryVerdict.GIVE_UP))

    def recovered(self, subject: str) -> None:
        """It moved, or is gone: whatever was wrong is over."""
        self._records.pop(subject, None)

    def take(self) -> list[FailedItem]:
        """Those that failed since the last call."""
        new, self._new = self._new, []
        return new

    def next_due_s(self) -> float | None:
        """How long until the first may be tried again; None if all may be."""
        now_ms = self._clock.monotonic_ms()
        ahead = [record.again_ms for record in self._records.values() if record.again_ms > now_ms]
        return (min(ahead) - now_ms) / 1000 if ahead else None

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._new.clear()

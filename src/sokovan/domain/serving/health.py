"""Endpoint health: healthy after two successes, unhealthy after three failures.

A result older than its time to live is unknown, and unknown does not count as healthy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, auto

from sokovan.domain.checks import require_int


class Health(StrEnum):
    """The health of an endpoint according to the last checks."""

    UNKNOWN = auto()
    HEALTHY = auto()
    UNHEALTHY = auto()


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """How many equal results in a row change the verdict, and how long it is valid."""

    successes_needed: int = 2
    failures_needed: int = 3
    ttl_ms: int = 30_000

    def __post_init__(self) -> None:
        for field in ("successes_needed", "failures_needed", "ttl_ms"):
            require_int(getattr(self, field), what="health policy", field=field, least=1)


@dataclass(frozen=True, slots=True)
class HealthCounter:
    """The consecutive equal results of one endpoint, and the resulting verdict."""

    verdict: Health = Health.UNKNOWN
    successes: int = 0
    failures: int = 0
    seen_at_ms: int | None = None

    def observe(self, *, ok: bool, at_ms: int, policy: HealthPolicy) -> HealthCounter:
        """The counter after one more result; an older one changes nothing."""
        if self.seen_at_ms is not None and at_ms < self.seen_at_ms:
            return self
        fresh = self.as_of(at_ms, policy)
        counted = replace(
            fresh,
            successes=fresh.successes + 1 if ok else 0,
            failures=0 if ok else fresh.failures + 1,
            seen_at_ms=at_ms,
        )
        return replace(counted, verdict=_verdict(counted, policy))

    def as_of(self, now_ms: int, policy: HealthPolicy) -> HealthCounter:
        """The counter as of now; stale results are dropped."""
        if self.seen_at_ms is None or now_ms - self.seen_at_ms <= policy.ttl_ms:
            return self
        return HealthCounter(seen_at_ms=self.seen_at_ms)


def _verdict(counter: HealthCounter, policy: HealthPolicy) -> Health:
    if counter.successes >= policy.successes_needed:
        return Health.HEALTHY
    if counter.failures >= policy.failures_needed:
        return Health.UNHEALTHY
    return counter.verdict


def is_health_path(path: object) -> bool:
    """Whether it is a plain path, so that a probe cannot be redirected."""
    return (
        isinstance(path, str)
        and path.startswith("/")
        and not path.startswith("//")
        and len(path) <= 256
        and path.isascii()
        and path.isprintable()
        and " " not in path
    )

"""Time, identifiers and metrics."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The time, and the only way to wait.

    A simulator gives virtual time, so only adapters may ask the operating system.
    """

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC. It may jump; do not measure durations with it."""

    def monotonic_ms(self) -> int:
        """Monotonic milliseconds, for durations inside one process."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; 0 yields to other tasks."""


class IdSource(Protocol):
    """Generates unique identifiers."""

    def new(self, prefix: str) -> str:
        """`prefix`, a hyphen, and a suffix that sorts by creation time."""


class Telemetry(Protocol):
    """Metrics. No decision depends on them.

    Names have no prefix or unit rules of any backend: `placements_total`,
    `cycle_seconds`. Labels have few values each.
    """

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Increment a counter."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Record an observation of a histogram."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""

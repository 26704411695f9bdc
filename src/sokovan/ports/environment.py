"""Time, identity, figures: what a decision may not touch by itself."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The time, and the only way to wait for it.

    A simulator gives virtual time, so nothing but an adapter may ask the
    operating system.
    """

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC. It may jump; never measure a duration by it."""

    def monotonic_ms(self) -> int:
        """Milliseconds that only ever grow: for durations inside one process."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; 0 lets others run."""


class IdSource(Protocol):
    """New identities, never given twice."""

    def new(self, prefix: str) -> str:
        """`prefix`, a hyphen, and a text that sorts by the time of its making."""


class Telemetry(Protocol):
    """Figures about the work, for whoever watches. Nothing is decided by them.

    A name is without prefix and unit suffix rules of any system: `placements_total`,
    `cycle_seconds`. Labels have few values each.
    """

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Something happened, so many times."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Something took so long, or was so much."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """There is so much of something now."""

"""Time and identity: what a decision may not read for itself."""

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

"""Hints: named flags that trigger a scan. They carry no data.

A hint is taken before the scan that it triggers. A hint set during the scan is therefore
still there afterwards, and triggers the next scan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Hints(Protocol):
    """Named flags that wake waiting tasks."""

    async def set(self, name: str) -> None:
        """Set the hint and wake waiting tasks; an unreachable bus is not an error."""

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was set. True if that is not known."""

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is set, False after `timeout_s`.

        The hint stays set until it is taken. If the state is not known, waits for the
        timeout.
        """

    async def close(self) -> None:
        """Close connections."""

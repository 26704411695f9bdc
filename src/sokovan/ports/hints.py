"""Hints: somebody should look, soon. They carry no fact and may be set twice.

A hint is taken before the scan that it causes. One that is set during the scan
is therefore still there afterwards, and wakes the next scan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Hints(Protocol):
    """Named marks that wake whoever waits for them."""

    async def set(self, name: str) -> None:
        """Leave the hint and wake those who wait; an unanswering bus is no error."""

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was there. True as well if that cannot be known."""

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is there, False after `timeout_s`.

        The hint stays until it is taken. If it cannot be known, waits out the time.
        """

    async def close(self) -> None:
        """Let go of connections."""

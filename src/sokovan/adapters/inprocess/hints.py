"""Hints of one process: a set of names, and whoever waits for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sokovan.adapters.inprocess.waiting import set_within
from sokovan.ports.environment import Clock


class InProcessHints:
    """The Hints port inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: set[str] = set()
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}

    async def set(self, name: str) -> None:
        """Leave the hint and wake those who wait for it."""
        self._left.add(name)
        for woken, names in self._waiting.items():
            if name in names:
                woken.set()

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was there."""
        was_there = name in self._left
        self._left.discard(name)
        return was_there

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is there, False after `timeout_s`."""
        wanted = frozenset(names)
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        woken = asyncio.Event()
        self._waiting[woken] = wanted
        try:
            while not self._left & wanted:
                woken.clear()
                left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
                # Somebody else may have taken the hint that woke us: then the rest of the time is waited as well.
                if not await set_within(woken, left_s, clock=self._clock):
                    return False
        finally:
            del self._waiting[woken]
        return True

    async def close(self) -> None:
        """There is nothing to let go of."""

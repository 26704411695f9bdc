"""Hints within one process: a set of names, and their waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sokovan.adapters.inprocess.waiting import set_within
from sokovan.ports.environment import Clock


class InProcessHints:
    """The Hints port inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hints: set[str] = set()
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}

    async def set(self, name: str) -> None:
        """Set the hint and wake its waiters."""
        self._hints.add(name)
        for woken, names in self._waiting.items():
            if name in names:
                woken.set()

    async def take(self, name: str) -> bool:
        """Clear the hint; whether it was set."""
        was_set = name in self._hints
        self._hints.discard(name)
        return was_set

    async def wait(self, names: Collection[str], *, timeout_s: float) -> bool:
        """Return True as soon as one of the hints is set, False after `timeout_s`."""
        expected = frozenset(names)
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        woken = asyncio.Event()
        self._waiting[woken] = expected
        try:
            while not self._hints & expected:
                woken.clear()
                left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
                # Another waiter may have cleared the hint: then wait for the rest of the time.
                if not await set_within(woken, left_s, clock=self._clock):
                    return False
        finally:
            del self._waiting[woken]
        return True

    async def close(self) -> None:
        """Do nothing; there are no resources."""

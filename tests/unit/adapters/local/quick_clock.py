"""The machine's time, for tests that do not want to wait for it."""

from __future__ import annotations

from sokovan.adapters.local.clock import SystemClock


class QuickClock(SystemClock):
    """Every sleep takes a millisecond; `waits` are the requested ones."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await super().sleep(min(seconds, 0.001))

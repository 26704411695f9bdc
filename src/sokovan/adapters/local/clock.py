"""The operating system's clock."""

from __future__ import annotations

import asyncio
import time

NANOSECONDS = 1_000_000


class SystemClock:
    """Clock port on the time of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return time.time_ns() // NANOSECONDS

    def monotonic_ms(self) -> int:
        """Milliseconds that only ever grow."""
        return time.monotonic_ns() // NANOSECONDS

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; 0 lets others run."""
        await asyncio.sleep(seconds)

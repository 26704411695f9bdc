"""The operating system's clock."""

from __future__ import annotations

import asyncio
import time

NANOSECONDS = 1_000_000


class SystemClock:
    """The Clock port on the system clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""
        return time.time_ns() // NANOSECONDS

    def monotonic_ms(self) -> int:
        """Monotonic milliseconds."""
        return time.monotonic_ns() // NANOSECONDS

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`; 0 yields to other tasks."""
        await asyncio.sleep(seconds)

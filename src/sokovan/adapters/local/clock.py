"""The operating system's clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

NANOSECONDS = 1_000_000
# A steady clock follows a clock that was set by at most this part of the time that passes.
FOLLOWED_PART = 10


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


def _boot_ns() -> int:
    """Nanoseconds since the machine started, those in which it slept included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock(SystemClock):
    """A system clock that does not jump when the time of the machine is set.

    It begins with the time of the machine and proceeds with the time that passes. A
    difference is made up slowly: time-outs end at most a tenth earlier or later, never
    all at once, and time never goes back. Threads may share one.
    """

    def __init__(self, *, wall_ns: Callable[[], int] = time.time_ns, passed_ns: Callable[[], int] = _boot_ns) -> None:
        self._wall_ns, self._passed_ns = wall_ns, passed_ns
        self._lock = threading.Lock()
        self._now_ns, self._read_ns = wall_ns(), passed_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC, steady."""
        with self._lock:
            read_ns = self._passed_ns()
            passed_ns = max(0, read_ns - self._read_ns)
            most_ns = passed_ns // FOLLOWED_PART
            behind_ns = self._wall_ns() - self._now_ns - passed_ns
            self._now_ns += passed_ns + max(-most_ns, min(most_ns, behind_ns))
            self._read_ns = read_ns
            return self._now_ns // NANOSECONDS

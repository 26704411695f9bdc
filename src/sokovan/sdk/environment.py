"""Clock, sleep and randomness of the SDK, replaceable in tests.

The SDK may not import the ports of the server, so it defines its own.
"""

from __future__ import annotations

import time
from typing import Protocol


class ClientEnvironment(Protocol):
    """Clock, sleep and randomness of a client."""

    def now_s(self) -> float:
        """Seconds of a monotonic clock."""

    def sleep(self, seconds: float) -> None:
        """Block this thread."""

    async def async_sleep(self, seconds: float) -> None:
        """Suspend this task."""

    def jitter(self) -> float:
        """A random number between 0 and 1, to spread the retries of many clients."""

    def new_key(self) -> str:
        """A new unique key."""


class SystemEnvironment:
    """The clock, sleep and randomness of the operating system."""

    def wall_s(self) -> float:
        """Seconds since 1970, to compute ages."""
        return time.time()  # noqa: TID251  # the only wall clock of SDK and command line

    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()  # noqa: TID251  # the only clock of the SDK

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)  # noqa: TID251  # the only sleep of the SDK

    async def async_sleep(self, seconds: float) -> None:
        """Suspend this task."""
        import asyncio  # noqa: PLC0415  # the sync client does not need it

        await asyncio.sleep(seconds)  # noqa: TID251  # the only sleep of the SDK

    def jitter(self) -> float:
        """A random number between 0 and 1, not for secrets."""
        import random  # noqa: PLC0415, TID251  # the SDK has no port for randomness

        return random.random()  # noqa: S311  # jitter of retries

    def new_key(self) -> str:
        """A random UUID."""
        import uuid  # noqa: PLC0415  # only needed for submissions

        return uuid.uuid4().hex  # noqa: TID251  # idempotency keys

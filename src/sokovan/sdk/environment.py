"""Clock, waiting and jitter: the only place where the SDK meets them.

A client runs in programs that know nothing of our ports, so it brings its own;
tests put another in its place.
"""

from __future__ import annotations

import time
from typing import Protocol


class ClientEnvironment(Protocol):
    """What a client needs from the world besides the network."""

    def now_s(self) -> float:
        """Seconds that only ever grow, from an unnamed beginning."""

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""

    async def async_sleep(self, seconds: float) -> None:
        """Wait in this task."""

    def jitter(self) -> float:
        """A number between 0 and 1, so that many clients do not come back at once."""

    def new_key(self) -> str:
        """A new name that nobody else uses."""


class SystemEnvironment:
    """The real ones."""

    def wall_s(self) -> float:
        """Seconds since 1970, for telling how long ago something was."""
        return time.time()  # noqa: TID251  # the one calendar of SDK and command line

    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()  # noqa: TID251  # the one clock of the SDK

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)  # noqa: TID251  # the one place where the SDK waits

    async def async_sleep(self, seconds: float) -> None:
        """Wait in this task."""
        import asyncio  # noqa: PLC0415  # a client without tasks does not pay for it

        await asyncio.sleep(seconds)  # noqa: TID251  # the one place where the SDK waits

    def jitter(self) -> float:
        """A number between 0 and 1; nothing secret hangs on it."""
        import random  # noqa: PLC0415, TID251  # the SDK has no port to take jitter from

        return random.random()  # noqa: S311  # jitter of a retry

    def new_key(self) -> str:
        """A random name."""
        import uuid  # noqa: PLC0415  # those who only read do not pay for it

        return uuid.uuid4().hex  # noqa: TID251  # the idempotency key of a client

"""Rates per minute as token buckets, in integers."""

from __future__ import annotations

MINUTE_MS = 60_000


class TokenBucket:
    """An amount per minute; what a minute allows may be taken at once.

    A request whose cost is known only afterwards may leave the bucket in debt, and later
    requests wait until it is paid back.
    """

    __slots__ = ("_filled_ms", "_level", "per_minute")

    def __init__(self, per_minute: int, now_ms: int) -> None:
        self.per_minute = per_minute
        # In amounts times milliseconds of a minute, so that nothing is rounded.
        self._level = per_minute * MINUTE_MS
        self._filled_ms = now_ms

    def wait_ms(self, now_ms: int, amount: int = 1) -> int:
        """How long until `amount` may be taken; 0: at once.

        More than a minute's amount waits for a full bucket.
        """
        self._fill(now_ms)
        missing = min(amount, self.per_minute) * MINUTE_MS - self._level
        if not self.per_minute:
            return MINUTE_MS
        return max(0, -(-missing // self.per_minute))

    def take(self, now_ms: int, amount: int = 1) -> None:
        """Take an amount; a negative one gives back."""
        self._fill(now_ms)
        self._level = min(self._level - amount * MINUTE_MS, self.per_minute * MINUTE_MS)

    def _fill(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._filled_ms)
        self._filled_ms = max(now_ms, self._filled_ms)
        self._level = min(self._level + passed_ms * self.per_minute, self.per_minute * MINUTE_MS)

"""Ids that sort by the time of their making."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable

from sokovan.domain.ids import checked_name
from sokovan.ports.environment import Clock

# Crockford's digits: in the order of ASCII, and without the letters that are taken for digits.
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
RANDOM_BITS = 80
_RANDOM_END = 1 << RANDOM_BITS
_TIME_END = 1 << 48


class SortableIds:
    """IdSource port: `prefix-` and 26 digits, 48 bits of time and 80 of chance.

    Inside one process each id is greater than the one before, also within one
    millisecond and after the clock jumped back: then the last id is counted up.
    """

    def __init__(self, clock: Clock, *, random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._clock, self._random_bits = clock, random_bits
        self._lock = threading.Lock()
        self._last_ms, self._last_chance = -1, 0
        self._process = os.getpid()

    def new(self, prefix: str) -> str:
        """A new id that begins with `prefix`. Raises InvalidName."""
        checked_name(prefix, what="kind of id")
        with self._lock:
            moment, chance = self._step()
            self._last_ms, self._last_chance = moment, chance
        return f"{prefix}-{_text(moment << RANDOM_BITS | chance)}"

    def _step(self) -> tuple[int, int]:
        now = self._clock.now_ms() % _TIME_END
        # A forked child has its parent's last id; counting on from it would give the parent's next ids again.
        forked = os.getpid() != self._process
        if now > self._last_ms or forked:
            self._process = os.getpid()
            return max(now, self._last_ms), self._random_bits(RANDOM_BITS)
        if self._last_chance + 1 < _RANDOM_END:
            return self._last_ms, self._last_chance + 1
        return self._last_ms + 1, self._random_bits(RANDOM_BITS)


def _text(number: int) -> str:
    digits = []
    for _ in range(LENGTH):
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(reversed(digits))

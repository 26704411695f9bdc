"""Ids that sort by creation time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sokovan.adapters.local.random_source import random_bits
from sokovan.domain.ids import checked_name
from sokovan.ports.environment import Clock

# Crockford's base 32: in ASCII order, without letters that resemble digits.
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
RANDOM_BITS = 80
_RANDOM_END = 1 << RANDOM_BITS
_TIME_END = 1 << 48
_PAIRS = [first + second for first in DIGITS for second in DIGITS]
_PAIR_MASK = len(_PAIRS) - 1
# Of each pair of digits, the highest first.
_SHIFTS = range((LENGTH - 2) * 5, -1, -10)


class SortableIds:
    """IdSource port: `prefix-` and 26 digits, 48 bits of time and 80 random bits.

    Within one process ids increase strictly, also within one millisecond and after the
    clock was set back: then the last id is incremented.
    """

    def __init__(self, clock: Clock, *, random_bits: Callable[[int], int] = random_bits) -> None:
        self._clock, self._random_bits = clock, random_bits
        self._lock = threading.Lock()
        self._last_ms, self._last_random = -1, 0
        self._process = os.getpid()

    def new(self, prefix: str) -> str:
        """A new id that begins with `prefix`. Raises InvalidName."""
        checked_name(prefix, what="kind of id")
        with self._lock:
            moment, random = self._step()
            self._last_ms, self._last_random = moment, random
        return f"{prefix}-{_text(moment << RANDOM_BITS | random)}"

    def _step(self) -> tuple[int, int]:
        now = self._clock.now_ms() % _TIME_END
        # A forked child has its parent's last id; incrementing it would repeat the parent's next ids.
        forked = os.getpid() != self._process
        if now > self._last_ms or forked:
            self._process = os.getpid()
            return max(now, self._last_ms), self._random_bits(RANDOM_BITS)
        if self._last_random + 1 < _RANDOM_END:
            return self._last_ms, self._last_random + 1
        return self._last_ms + 1, self._random_bits(RANDOM_BITS)


def _text(number: int) -> str:
    """The digits of a number, two at a time: a gang of thousands has an id for each kernel."""
    return "".join([_PAIRS[number >> shift & _PAIR_MASK] for shift in _SHIFTS])

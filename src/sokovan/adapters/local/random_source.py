"""Random values from the operating system's secure source."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable

# Bytes read at once: a system call for each number costs more than what the number is for.
_READ = 1_024


def secret_text(size: int = 32) -> str:
    """A URL-safe text of `size` random bytes."""
    return secrets.token_urlsafe(size)


def fraction() -> float:
    """A random number in [0, 1)."""
    return secrets.randbits(53) / (1 << 53)


class BufferedBits:
    """Random numbers for ids and names, from bytes that were read ahead.

    Not for secrets: what is read ahead stays in memory until it is used.
    """

    def __init__(self, read: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._left, self._process = b"", 0

    def __call__(self, bits: int) -> int:
        """A random number of this many bits, at most 8,192."""
        size = (bits + 7) // 8
        with self._lock:
            # A forked child has its parent's bytes, and would repeat its numbers.
            if len(self._left) < size or self._process != os.getpid():
                self._left, self._process = self._read(_READ), os.getpid()
            taken, self._left = self._left[:size], self._left[size:]
        return int.from_bytes(taken, "big") >> (size * 8 - bits)


random_bits = BufferedBits()


def number() -> int:
    """A random 64-bit number."""
    return random_bits(64)

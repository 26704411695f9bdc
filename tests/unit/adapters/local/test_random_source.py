"""Chance: never the same twice, and within its bounds."""

from __future__ import annotations

import os
import re
from itertools import count

import pytest

from sokovan.adapters.local.random_source import BufferedBits, fraction, number, secret_text


def test_a_secret_is_long_enough_and_fits_a_header() -> None:
    found = {secret_text() for _ in range(100)}
    assert len(found) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", text) for text in found)


def test_a_fraction_lies_between_zero_and_one() -> None:
    found = [fraction() for _ in range(1000)]
    assert all(0 <= one < 1 for one in found)
    assert min(found) < 0.5 < max(found)


def test_numbers_differ() -> None:
    assert len({number() for _ in range(100)}) == 100


def test_bits_are_read_ahead_and_each_is_used_once() -> None:
    reads = count()

    def read(size: int) -> bytes:
        return bytes([next(reads)] * size)

    bits = BufferedBits(read)
    found = [bits(80) for _ in range(1_024 // 10 + 1)]
    assert next(reads) == 2
    assert [one % 256 for one in found] == [0] * (1_024 // 10) + [1]


def test_numbers_have_at_most_their_bits() -> None:
    bits = BufferedBits(lambda size: b"\xff" * size)
    assert [bits(size) for size in (1, 7, 8, 9, 80)] == [1, 127, 255, 511, (1 << 80) - 1]


def test_a_forked_process_does_not_repeat_the_numbers_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count()
    bits = BufferedBits(lambda size: bytes([next(reads)] * size))
    assert bits(8) == 0
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert bits(8) == 1

"""Chance: never the same twice, and within its bounds."""

from __future__ import annotations

import re

from sokovan.adapters.local.random_source import fraction, number, secret_text


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

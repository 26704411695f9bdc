"""Durations in sentences."""

import pytest

from sokovan.api.mapping.times import read_duration
from sokovan.domain.lifecycle.durations import duration_text, duration_text_of


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 61, 5400, 86_399, 86_400, 90_061, 30 * 86_400])
def test_a_duration_is_read_back_as_it_was_written(seconds: int) -> None:
    assert read_duration(duration_text(seconds), field="for") == seconds


def test_units_that_are_zero_are_left_out() -> None:
    assert [duration_text(one) for one in (5400, 86_401, 3_600, 0)] == ["1h30m", "1d1s", "1h", "0s"]


def test_milliseconds_are_rounded_up() -> None:
    assert [duration_text_of(one) for one in (0, 1, 1000, 1001)] == ["0s", "1s", "1s", "2s"]

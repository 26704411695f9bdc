"""Parses and formats times and durations."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.api.mapping import times
from sokovan.api.mapping.times import read_duration, read_time, time_text, time_text_or_none
from sokovan.domain.errors import InvalidSpec


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(times).failed == 0


@given(st.integers(min_value=0, max_value=253_402_300_799_000))
def test_a_time_is_read_as_it_was_written(ms: int) -> None:
    assert read_time(time_text(ms), field="starts_at") == ms


def test_what_has_not_happened_has_no_time() -> None:
    assert time_text_or_none(None) is None
    assert time_text_or_none(0) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2030-01-31",
        "2030-01-31T18:00:00",
        "2030-13-31T18:00:00Z",
        "2030-02-30T18:00:00Z",
        "2030-01-31T25:00:00Z",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59 ",
        "2030-01-31T18:00:00Z\x00",
    ],
)
def test_what_is_no_time_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_time(text, field="starts_at")
    assert refused.value.field == "starts_at"


@pytest.mark.parametrize(
    ("given", "seconds"), [(90, 90), ("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d12h", 129_600)]
)
def test_a_duration_is_seconds_or_says_its_units(given: int | str, seconds: int) -> None:
    assert read_duration(given, field="time_limit") == seconds


@pytest.mark.parametrize("given", ["", "m", "1.5h", "-1", "1w", "1 h", "9999999999", "10000d", -1, 10**12, "٣s"])
def test_what_is_no_duration_is_refused(given: int | str) -> None:
    with pytest.raises(InvalidSpec):
        read_duration(given, field="time_limit")


def test_a_limit_of_nothing_may_be_refused() -> None:
    assert read_duration(0, field="stop_grace") == 0
    with pytest.raises(InvalidSpec):
        read_duration("0s", field="time_limit", least=1)

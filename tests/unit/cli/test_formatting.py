"""Values as they stand in a cell of a table."""

from __future__ import annotations

from datetime import datetime

import pytest

from sokovan.cli import formatting

NOON = 1_893_499_200.0  # 2030-01-01T12:00:00Z


def test_none_is_a_dash_and_zero_is_not() -> None:
    assert (formatting.or_none(None), formatting.or_none(0)) == ("-", "0")


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ("2030-01-01T11:59:58.500Z", "1s"),
        ("2030-01-01T11:00:00Z", "1h"),
        ("2029-12-30T06:30:00Z", "2d 5h"),
        ("2031-01-01T00:00:00Z", "0s"),
        (None, "-"),
        ("yesterday", "-"),
    ],
)
def test_times_are_printed_as_ages(then: str | None, text: str) -> None:
    assert formatting.age(then, now_s=NOON) == text


def test_times_are_printed_in_utc_on_request() -> None:
    assert formatting.age("2030-01-01T11:00:00Z", now_s=NOON, utc=True) == "2030-01-01T11:00:00Z"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m"), (3661, "1h 1m"), (86400, "1d")])
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("slot", "value", "text"),
    [
        ("cpu", 500, "0.5"),
        ("cpu", 64000, "64"),
        ("mem", 0, "0B"),
        ("mem", 1 << 30, "1GiB"),
        ("mem", 25_233_985_536, "23.5GiB"),
        ("mem", 1023 << 20, "1023MiB"),
        ("cuda.mem", 80 << 30, "80GiB"),
        ("cuda.shares", 250, "0.25"),
        ("cuda.device", 8, "8"),
    ],
)
def test_amounts_have_readable_units(slot: str, value: int, text: str) -> None:
    assert formatting.amount(slot, value) == text


def test_nothing_is_a_dash() -> None:
    assert (
        formatting.amounts({}) == formatting.gpus({"cpu": 1}) == formatting.share("cuda.device", {}, {"cpu": 1}) == "-"
    )


def test_several_amounts_and_shares() -> None:
    assert formatting.amounts({"cpu": 1000, "mem": 1 << 30, "x": 0}) == "cpu 1, mem 1GiB"
    assert formatting.share("cpu", {"cpu": 500}, {"cpu": 4000}) == "0.5/4"
    assert formatting.gpus({"cuda.device": 2, "cuda.shares": 500}) == "2 + 0.5"
    assert formatting.gpu_slot({"rocm.device": 1}) == "rocm.device"


def test_how_long_something_took() -> None:
    assert formatting.between("2030-01-01T00:00:00Z", "2030-01-01T00:00:01.250Z") == ", 1.2 s"
    assert formatting.between("2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z") == ", 1h"
    assert formatting.between(None, "2030-01-01T00:00:00Z") == ""


def test_a_time_is_written_as_the_api_reads_it() -> None:
    moment = datetime.fromisoformat("2026-01-31T18:00:00.250+01:00")
    assert formatting.utc_text(moment) == "2026-01-31T17:00:00Z"
    assert formatting.utc_text(moment, "milliseconds") == "2026-01-31T17:00:00.250Z"

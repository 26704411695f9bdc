"""The options of a time to show."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.catalog.time_window import WindowOptions
from sokovan.sdk.errors import InvalidSetting

NOON, EVENING = "2023-11-14T12:00:00Z", "2023-11-14T18:00:00+01:00"


def test_a_time_without_an_end_lasts_until_now() -> None:
    window = WindowOptions().window()
    assert (window.to_s - window.from_s, window.until) == (3_600, None)
    assert WindowOptions(last="15m").window().from_s >= window.from_s
    begun = WindowOptions(begins=NOON).window()
    assert (begun.since, begun.until) == ("2023-11-14T12:00:00.000Z", None)


def test_a_time_in_the_past_has_two_ends_or_one_and_a_length() -> None:
    window = WindowOptions(begins=NOON, to=EVENING).window()
    assert (window.since, window.until) == ("2023-11-14T12:00:00.000Z", "2023-11-14T17:00:00.000Z")
    assert WindowOptions(to=EVENING, last="5h").window() == window
    assert WindowOptions(to=NOON).window().since == "2023-11-14T11:00:00.000Z"
    # A day begins at midnight where the command runs.
    day = WindowOptions(begins="2023-11-14", to="2023-11-15").window()
    assert 22 * 3_600 <= day.to_s - day.from_s <= 26 * 3_600


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (WindowOptions(begins="yesterday"), "--from 'yesterday' is not a time"),
        (WindowOptions(to="0000-01-01"), "--to '0000-01-01' is not a time"),
        (WindowOptions(begins=NOON, last="1h"), "--from and --last"),
        (WindowOptions(begins=EVENING, to=NOON), "begins at its end, --to 2023-11-14T12:00:00Z, or after it"),
        (WindowOptions(begins="9999-01-01T00:00:00Z"), "begins at its end, now, or after it"),
        (WindowOptions(to="1970-01-01T00:30:00Z"), "before 1970"),
        (WindowOptions(last="ever"), "--last: 'ever' is not a duration"),
    ],
)
def test_times_that_name_no_window_are_refused(options: WindowOptions, problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem.replace("(", r"\(")):
        options.window()

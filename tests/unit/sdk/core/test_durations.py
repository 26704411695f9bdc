"""Durations such as 90s or 1h30m."""

from __future__ import annotations

import pytest

from sokovan.sdk.core.durations import seconds
from sokovan.sdk.errors import InvalidSetting


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("90", 90), ("1.5", 1.5), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800)]
)
def test_seconds_are_read(text: str, value: float) -> None:
    assert seconds(text, what="--timeout") == value


@pytest.mark.parametrize("text", ["", "-1", "1w", "h", "1 h", "1h30", "nan", "1e9", "9" * 10, "1.5h"])
def test_anything_else_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(InvalidSetting, match="--timeout"):
        seconds(text, what="--timeout")

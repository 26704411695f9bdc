"""Parses durations such as 90s or 1h30m."""

from __future__ import annotations

import re

from sokovan.sdk.errors import InvalidSetting

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_DURATION = re.compile(r"(?:[0-9]{1,9}[smhd])+|[0-9]{1,9}(?:\.[0-9]{1,3})?", re.ASCII)
_PART = re.compile(r"([0-9]+)([smhd])", re.ASCII)


def seconds(text: str, *, what: str) -> float:
    """Parse 90, 1.5, 90s, 30m or 1h30m into seconds. Raises InvalidSetting.

    >>> seconds("1h30m", what="--timeout")
    5400.0
    """
    if _DURATION.fullmatch(text) is None:
        raise InvalidSetting(
            f"{what}: {text[:60]!r} is not a duration", hint="write seconds, or 90s, 30m, 4h, 2d, 1h30m"
        )
    parts = _PART.findall(text)
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts)) if parts else float(text)

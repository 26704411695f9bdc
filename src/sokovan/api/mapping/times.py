"""Parses and formats times and durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from sokovan.domain.errors import InvalidSpec

DURATION_MAX_S = 366 * 24 * 3600
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # everything here is UTC; arithmetic on whole numbers is exact
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_DURATION = re.compile(r"(?:[0-9]{1,9}[smhd])+|[0-9]{1,9}", re.ASCII)
_PART = re.compile(r"([0-9]+)([smhd]?)", re.ASCII)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


def time_text(ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339 in UTC.

    >>> time_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return f"{(_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec='milliseconds')}Z"


def time_text_or_none(ms: int | None) -> str | None:
    """Like `time_text`; None stays None."""
    return None if ms is None else time_text(ms)


def read_time(text: str, *, field: str, what: str = "session") -> int:
    """RFC 3339, with its offset, as milliseconds. Raises InvalidSpec.

    >>> read_time("2023-11-14T23:13:20.123+01:00", field="starts_at")
    1700000000123
    """
    problem = "is not a time such as 2030-01-31T18:00:00Z (RFC 3339, with an offset)"
    if not _TIME.fullmatch(text):
        raise InvalidSpec(what=what, field=field, value=text, problem=problem)
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidSpec(what=what, field=field, value=text, problem=problem) from None
    if moment < _EPOCH:
        raise InvalidSpec(what=what, field=field, value=text, problem="is before 1970")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def read_duration(given: int | str, *, field: str, least: int = 0) -> int:
    """Seconds: 90, "90", "90s", "1h30m". Raises InvalidSpec.

    >>> read_duration("1h30m", field="time_limit")
    5400
    """
    if isinstance(given, str):
        if not _DURATION.fullmatch(given):
            problem = "is not a duration such as 90, 90s, 30m, 2h, 1d or 1h30m"
            raise InvalidSpec(what="session", field=field, value=given, problem=problem)
        seconds = sum(int(number) * _UNITS.get(unit, 1) for number, unit in _PART.findall(given))
    else:
        seconds = given
    if not least <= seconds <= DURATION_MAX_S:
        problem = f"must be between {least} and {DURATION_MAX_S} seconds"
        raise InvalidSpec(what="session", field=field, value=given, problem=problem)
    return seconds

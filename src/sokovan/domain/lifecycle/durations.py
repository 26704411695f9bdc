"""Durations as people write and read them."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def duration_text(seconds: int) -> str:
    """Whole seconds in all units, as the commands take them.

    >>> duration_text(5400), duration_text(93_784), duration_text(30), duration_text(0)
    ('1h30m', '1d2h3m4s', '30s', '0s')
    """
    parts, left = "", seconds
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        parts += f"{count}{unit}" if count else ""
    return parts or "0s"


def duration_text_of(ms: int) -> str:
    """Like `duration_text` for milliseconds, rounded up.

    >>> duration_text_of(1), duration_text_of(60_000)
    ('1s', '1m')
    """
    return duration_text(-(-ms // 1000))

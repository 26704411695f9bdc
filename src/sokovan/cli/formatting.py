"""Values as they stand in a cell of a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

NONE = "-"
_STEPS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
GPU_SLOTS = ("cuda.device", "cuda.shares", "rocm.device", "tpu.device")


def or_none(value: object) -> str:
    """A value as it is, where nothing may be set."""
    return NONE if value is None else str(value)


def age(then: str | None, *, now_s: float, utc: bool = False) -> str:
    """How long ago a time was, in one or two units; with `utc` the time itself."""
    if then is None:
        return NONE
    if utc:
        return then
    moment = _moment(then)
    return NONE if moment is None else duration(max(0.0, now_s - moment))


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.4), duration(75), duration(3600 * 30)
    ('0s', '1m 15s', '1d 6h')
    """
    left = int(seconds)
    parts: list[str] = []
    for size, unit in _STEPS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0")) or "0s"


def amount(slot: str, value: int) -> str:
    """An amount of a slot in a unit that people read.

    >>> amount("cpu", 1500), amount("mem", 64 << 30), amount("cuda.device", 8)
    ('1.5', '64GiB', '8')
    """
    if slot == "cpu" or slot.endswith(".shares"):
        return f"{value / 1000:g}"
    if slot == "mem" or slot.endswith(".mem"):
        return _bytes(value)
    return str(value)


def amounts(slots: Mapping[str, int]) -> str:
    """Several amounts: cpu 2, mem 4GiB."""
    return ", ".join(f"{slot} {amount(slot, value)}" for slot, value in slots.items() if value) or NONE


def share(slot: str, used: Mapping[str, int], total: Mapping[str, int]) -> str:
    """How much of a slot is used: 3/8."""
    if not total.get(slot):
        return NONE
    return f"{amount(slot, used.get(slot, 0))}/{amount(slot, total[slot])}"


def gpus(slots: Mapping[str, int]) -> str:
    """How many accelerators, of whichever kind."""
    found = [amount(slot, slots[slot]) for slot in GPU_SLOTS if slots.get(slot)]
    return " + ".join(found) or NONE


def gpu_slot(slots: Mapping[str, int]) -> str:
    """The slot under which accelerators are counted here."""
    return next((slot for slot in GPU_SLOTS if slots.get(slot)), GPU_SLOTS[0])


def _bytes(value: int) -> str:
    scaled, unit = float(value), 0
    while scaled >= 1024 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{scaled:.3g}{_UNITS[unit]}" if scaled < 1000 else f"{scaled:.0f}{_UNITS[unit]}"


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError:
        return None


def between(then: str | None, later: str | None) -> str:
    """How long something took, as the end of a sentence; nothing if that is not known."""
    begin, end = _moment(then or ""), _moment(later or "")
    if begin is None or end is None or end < begin:
        return ""
    return f", {end - begin:.1f} s" if end - begin < 60 else f", {duration(end - begin)}"

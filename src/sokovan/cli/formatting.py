"""Formats values for the cells of a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

NONE = "-"
_STEPS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
GPU_SLOTS = ("cuda.device", "cuda.shares", "rocm.device", "tpu.device")
MIG_PREFIX = "cuda.mig-"


def or_none(value: object) -> str:
    """A value as text; None as a dash."""
    return NONE if value is None else str(value)


def utc_text(moment: datetime, timespec: str = "seconds") -> str:
    """A time as the API reads and writes it."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def age(then: str | None, *, now_s: float, utc: bool = False) -> str:
    """The age of a timestamp in one or two units; with `utc` the timestamp itself."""
    if then is None:
        return NONE
    if utc:
        return then
    then_s = _timestamp(then)
    return NONE if then_s is None else duration(max(0.0, now_s - then_s))


def duration(seconds: float) -> str:
    """Seconds in their two largest units.

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


def length(seconds: int | None) -> str:
    """A length of time that was set, in all its units; None as a dash.

    >>> length(90), length(93_784), length(0), length(None)
    ('1m30s', '1d2h3m4s', '0s', '-')
    """
    if seconds is None:
        return NONE
    parts, left = "", seconds
    for size, unit in _STEPS:
        count, left = divmod(left, size)
        parts += f"{count}{unit}" if count else ""
    return parts or "0s"


def amount(slot: str, value: int) -> str:
    """An amount of a slot in a readable unit.

    >>> amount("cpu", 1500), amount("mem", 64 << 30), amount("cuda.device", 8)
    ('1.5', '64GiB', '8')
    """
    if slot == "cpu" or slot.endswith(".shares"):
        return f"{value / 1000:g}"
    if slot == "mem" or slot.endswith(".mem"):
        return _bytes(value)
    return str(value)


def amounts(slots: Mapping[str, int]) -> str:
    """Amounts by slot, as in: cpu 2, mem 4GiB."""
    return ", ".join(f"{slot} {amount(slot, value)}" for slot, value in slots.items() if value) or NONE


def share(slot: str, used: Mapping[str, int], total: Mapping[str, int]) -> str:
    """Used and total amount of a slot, as in 3/8."""
    if not total.get(slot):
        return NONE
    return f"{amount(slot, used.get(slot, 0))}/{amount(slot, total[slot])}"


def gpus(slots: Mapping[str, int]) -> str:
    """The number of accelerators of each kind, and of slices with their profile.

    >>> gpus({"cuda.device": 2}), gpus({"cuda.mig-1g.10gb.device": 3})
    ('2', '3x1g.10gb')
    """
    found = [amount(slot, slots[slot]) for slot in GPU_SLOTS if slots.get(slot)]
    slices = [f"{slots[slot]}x{_profile(slot)}" for slot in slots if slot.startswith(MIG_PREFIX) and slots[slot]]
    return " + ".join(found + slices) or NONE


def gpu_slot(slots: Mapping[str, int]) -> str:
    """The accelerator slot of these slots."""
    kinds = (*GPU_SLOTS, *(slot for slot in slots if slot.startswith(MIG_PREFIX)))
    return next((slot for slot in kinds if slots.get(slot)), GPU_SLOTS[0])


def _profile(slot: str) -> str:
    return slot.removeprefix(MIG_PREFIX).removesuffix(".device")


def _bytes(value: int) -> str:
    scaled, unit = float(value), 0
    while scaled >= 1024 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{scaled:.3g}{_UNITS[unit]}" if scaled < 1000 else f"{scaled:.0f}{_UNITS[unit]}"


def _timestamp(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError:
        return None


def is_past(then: str | None, *, now_s: float) -> bool:
    """Whether a time is over; one that is not given never is."""
    moment = _timestamp(then or "")
    return moment is not None and moment <= now_s


def between(then: str | None, later: str | None) -> str:
    """Elapsed time as the end of a sentence; empty if unknown."""
    begin, end = _timestamp(then or ""), _timestamp(later or "")
    if begin is None or end is None or end < begin:
        return ""
    return f", {end - begin:.1f} s" if end - begin < 60 else f", {duration(end - begin)}"

"""Parses and formats slot amounts such as `mem=1.5Gi`.

Conversion is exact or rejected: `mem=1.5Gi` is 1610612736 bytes, `cpu=0.0005` is finer
than a millicore and therefore an error, never rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sokovan.domain.errors import InvalidSlots, quoted
from sokovan.domain.slots import AMOUNT_MAX, ResourceSlot, checked_slot_name


@dataclass(frozen=True)
class SlotKind:
    """The unit, the suffixes and the scale of a family of slots."""

    name: str
    matches: str
    unit: str
    parts: int  # stored units in one written unit
    example: str
    suffixes: Mapping[str, Fraction]


_DECIMAL = {suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P"), start=1)}
_BINARY = {suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)}
_MILLI = {"m": Fraction(1, 1000)}
_SCALED = {**_DECIMAL, **_BINARY}
_BYTES = {**_SCALED, "B": Fraction(1), **{f"{suffix}B": factor for suffix, factor in _SCALED.items()}}

CPU = SlotKind("cpu", "cpu", "millicores", 1000, "cpu=0.5", {**_MILLI, **_SCALED})
MEMORY = SlotKind("memory", "mem, and names that end in .mem", "bytes", 1, "mem=4Gi", _BYTES)
SHARES = SlotKind("shares", "names that end in .shares", "thousandths", 1000, "cuda.shares=0.25", {**_MILLI, **_SCALED})
COUNT = SlotKind("count", "every other name", "pieces", 1, "cuda.device=8", _SCALED)

KINDS = (CPU, MEMORY, SHARES, COUNT)

TEXT_MAX = 1024
# More digits than any allowed amount has.
_LONG_NUMBER = re.compile(r"[0-9]{21,}(?:\.[0-9]*)?[A-Za-z]{0,3}", re.ASCII)
_NUMBER = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([A-Za-z]{0,3})", re.ASCII)


def kind_of(slot: str) -> SlotKind:
    """The kind of a slot, determined by its name."""
    if slot == "cpu":
        return CPU
    if slot == "mem" or slot.endswith(".mem"):
        return MEMORY
    return SHARES if slot.endswith(".shares") else COUNT


def parse_slots(text: str) -> ResourceSlot:
    """Read `cpu=2 mem=4Gi` (blanks or commas between).

    >>> parse_slots("cpu=0.5, mem=512M")
    ResourceSlot(cpu=500, mem=512000000)
    """
    if not isinstance(text, str):
        raise InvalidSlots(given=text, problem="it is not a text")
    if len(text) > TEXT_MAX:
        raise InvalidSlots(given=text, problem=f"it is longer than {TEXT_MAX} characters")
    amounts: dict[str, int] = {}
    for item in text.replace(",", " ").split():
        name, equals, amount = item.partition("=")
        if not equals:
            raise InvalidSlots(given=text, problem=f"{quoted(item)} has no '='")
        slot = checked_slot_name(name, given=text)
        if slot in amounts:
            raise InvalidSlots(given=text, problem=f"{slot} is given twice", hint=f"give {slot} once")
        amounts[slot] = parse_amount(slot, amount)
    return ResourceSlot(amounts)


def read_slots(given: Mapping[str, object]) -> ResourceSlot:
    """Read a mapping as it comes from YAML, TOML or JSON: `{cpu: 0.5, mem: 4Gi}`."""
    if not isinstance(given, Mapping):
        raise InvalidSlots(
            given=given,
            problem="it is not a mapping",
            hint="write slots as {cpu: 2, mem: 4Gi, cuda.device: 1}",
        )
    return ResourceSlot({slot: parse_amount(checked_slot_name(slot, given=given), v) for slot, v in given.items()})


def parse_amount(slot: str, given: object) -> int:
    """One amount in stored units.

    >>> parse_amount("cpu", "0.5"), parse_amount("mem", "1.5Ki"), parse_amount("cpu", 2)
    (500, 1536, 2000)
    """
    kind = kind_of(checked_slot_name(slot, given=slot))
    text = _number_text(slot, given)
    shape = _NUMBER.fullmatch(text)
    if shape is None:
        if _LONG_NUMBER.fullmatch(text):
            raise _too_much(slot, given)
        raise _refused(slot, given, "not a number with an optional unit" if text else "no amount")
    number, suffix = shape.groups()
    if suffix and suffix not in kind.suffixes:
        raise _refused(slot, given, f"no unit {suffix!r} for {slot}")
    amount = Fraction(number) * (kind.suffixes[suffix] if suffix else 1) * kind.parts
    if amount.denominator != 1:
        raise _refused(slot, given, f"not a whole number of {kind.unit}")
    if amount > AMOUNT_MAX:
        raise _too_much(slot, given)
    return amount.numerator


def format_slots(slots: ResourceSlot) -> str:
    """Slots in the form that `parse_slots` reads.

    >>> format_slots(ResourceSlot({"cpu": 500, "mem": 4294967296}))
    'cpu=0.5 mem=4Gi'
    """
    return " ".join(f"{slot}={format_amount(slot, amount)}" for slot, amount in slots.items())


def format_amount(slot: str, amount: int) -> str:
    """One amount in its shortest exact form.

    >>> format_amount("mem", 512000000), format_amount("mem", 1610612736), format_amount("cuda.shares", 250)
    ('512M', '1536Mi', '0.25')
    """
    kind = kind_of(slot)
    if kind.parts != 1:
        whole, rest = divmod(amount, kind.parts)
        return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
    if kind is not MEMORY:
        return str(amount)
    # min() keeps the first of two forms of one length, so binary units win a tie.
    exact = [
        f"{amount // factor.numerator}{suffix}"
        for suffix, factor in {**_BINARY, **_DECIMAL}.items()
        if amount and amount % factor.numerator == 0
    ]
    return min([*exact, str(amount)], key=len)


def _number_text(slot: str, given: object) -> str:
    """The amount as text; a float, as YAML gives for `0.5`, in its shortest form."""
    if isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise _refused(slot, given, "not a number or text")
    if isinstance(given, float):
        decimal = Decimal(repr(given))
        return f"{decimal:f}" if decimal.is_finite() else str(given)
    if given > AMOUNT_MAX:
        raise _too_much(slot, given)
    return str(given) if given >= 0 else "below zero"


def _too_much(slot: str, given: object) -> InvalidSlots:
    return _refused(slot, given, f"more than {format_amount(slot, AMOUNT_MAX)}")


def _refused(slot: str, given: object, problem: str) -> InvalidSlots:
    kind = kind_of(slot)
    units = ", ".join(kind.suffixes) or "none"
    hint = f"{slot} is counted in {kind.unit}: write for example {kind.example}; units: {units}"
    if kind is COUNT and slot.endswith(".device") and problem.startswith("not a whole"):
        hint = f"{slot} is counted in pieces; a part of one is {slot.removesuffix('.device')}.shares=0.25"
    if (isinstance(given, str) and given.strip().startswith("-")) or (isinstance(given, int | float) and given < 0):
        problem = "below zero"
    written = given if isinstance(given, str) else quoted(given)
    return InvalidSlots(given=f"{slot}={written}", problem=problem, hint=hint)

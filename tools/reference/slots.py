"""The notation of slot amounts."""

from __future__ import annotations

from sokovan.domain.slot_notation import KINDS, SlotKind, format_slots, parse_slots
from sokovan.domain.slots import AMOUNT_MAX

INTRODUCTION = """\
# Slots

Resources are named slots with integer amounts. The name determines the unit. A written amount is exact or refused,
never rounded; a slot that is not named is 0.

| Kind | Names | Stored in | Example | Units |
|---|---|---|---|---|
"""

EXAMPLES = (
    "cpu=2",
    "cpu=0.5",
    "cpu=500m",
    "mem=4Gi",
    "mem=512M",
    "mem=1.5GiB",
    "mem=1000000",
    "cuda.device=8",
    "cuda.shares=0.25",
    "cpu=2 mem=4Gi cuda.device=1",
    "cpu=2,mem=4Gi",
)


def page() -> str:
    """The page of slot notation."""
    kinds = [_kind_row(kind) for kind in KINDS]
    examples = [f"| `{text}` | {_stored(text)} | `{format_slots(parse_slots(text))}` |\n" for text in EXAMPLES]
    heading = "\n| Written | Stored | Printed back |\n|---|---|---|\n"
    limit = f"\nOne amount is at most {AMOUNT_MAX} stored units (2^53).\n"
    return INTRODUCTION + "".join(kinds) + heading + "".join(examples) + limit


def _kind_row(kind: SlotKind) -> str:
    units = ", ".join(f"`{unit}`" for unit in kind.suffixes)
    return f"| {kind.name} | {kind.matches} | {kind.unit} | `{kind.example}` | {units} |\n"


def _stored(text: str) -> str:
    return ", ".join(f"{slot} {amount}" for slot, amount in parse_slots(text).items())

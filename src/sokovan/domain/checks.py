"""Checks shared by specs; each error names the field and quotes the value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.slots import AMOUNT_MAX, ResourceSlot, SlotLimits

# The largest value of database and scheduler columns.
INT64_MAX = 2**63 - 1
LABELS_MAX = 64
LABEL_TEXT_MAX = 256

K = TypeVar("K")


def require_int(value: object, *, what: str, field: str, least: int = -INT64_MAX, most: int = INT64_MAX) -> int:
    """Return `value` if it is an integer within its bounds. Raises InvalidSpec."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSpec(what=what, field=field, value=value, problem="must be a whole number")
    if value < least:
        raise InvalidSpec(what=what, field=field, value=value, problem=f"must be {least} or more")
    if value > most:
        raise InvalidSpec(what=what, field=field, value=value, problem=f"must be {most} or less")
    return value


def require_kind(value: object, kind: type[K], *, what: str, field: str) -> K:
    """Return `value` if it is of this type, without coercion. Raises InvalidSpec."""
    if isinstance(value, kind):
        return value
    form = f"one of {', '.join(kind)}" if issubclass(kind, StrEnum) else f"of type {kind.__name__}"
    raise InvalidSpec(what=what, field=field, value=value, problem=f"must be {form}")


def require_tuple(values: object, kind: type, *, what: str, field: str) -> None:
    """Require a tuple of one type; a single string does not count as a tuple."""
    if isinstance(values, tuple) and not values:  # most are empty
        return
    if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
        raise InvalidSpec(what=what, field=field, value=values, problem=f"must be a tuple of type {kind.__name__}")


def require_labels(labels: object, *, what: str, field: str = "labels", most: int = LABELS_MAX) -> None:
    """Require at most `most` labels with short, printable names and values."""
    if not isinstance(labels, Mapping) or len(labels) > most:
        raise InvalidSpec(what=what, field=field, value=labels, problem=f"must be a mapping of at most {most} labels")
    for pair in labels.items():
        for text in pair:
            if not isinstance(text, str) or not len(text) <= LABEL_TEXT_MAX or not text.isprintable():
                raise InvalidSpec(
                    what=what,
                    field=field,
                    value=text,
                    problem=f"is not a printable text of at most {LABEL_TEXT_MAX} characters",
                    hint="quote values that YAML would read as numbers or booleans",
                )


def require_slots(slots: object, *, what: str, field: str = "slots") -> None:
    """Require a ResourceSlot whose amounts fit the scheduler's columns."""
    if not isinstance(slots, ResourceSlot):
        raise InvalidSpec(what=what, field=field, value=slots, problem="must be a ResourceSlot")
    for slot, amount in slots.items():
        if amount > AMOUNT_MAX:
            raise InvalidSpec(what=what, field=field, value={slot: amount}, problem=f"is more than {AMOUNT_MAX}")


def require_limits(limits: object, *, what: str, field: str) -> None:
    """Require SlotLimits whose amounts are valid slot amounts."""
    amounts = require_kind(limits, SlotLimits, what=what, field=field)
    require_slots(ResourceSlot(amounts), what=what, field=field)

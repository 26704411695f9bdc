"""The few checks that many specs share; each names the field and quotes the value."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.slots import AMOUNT_MAX, ResourceSlot

LABELS_MAX = 64
LABEL_TEXT_MAX = 256


def require_int(value: object, *, what: str, field: str, least: int | None = None, most: int | None = None) -> int:
    """`value` if it is a whole number within its bounds; raises InvalidSpec."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSpec(what=what, field=field, value=value, problem="must be a whole number")
    if least is not None and value < least:
        raise InvalidSpec(what=what, field=field, value=value, problem=f"must be {least} or more")
    if most is not None and value > most:
        raise InvalidSpec(what=what, field=field, value=value, problem=f"must be {most} or less")
    return value


def require_labels(labels: object, *, what: str, field: str = "labels") -> None:
    """Labels are few, short texts by short names."""
    if not isinstance(labels, Mapping) or len(labels) > LABELS_MAX:
        raise InvalidSpec(
            what=what, field=field, value=labels, problem=f"must be a mapping of at most {LABELS_MAX} labels"
        )
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
    """A ResourceSlot whose amounts fit the columns of the scheduler."""
    if not isinstance(slots, ResourceSlot):
        raise InvalidSpec(what=what, field=field, value=slots, problem="must be a ResourceSlot")
    for slot, amount in slots.items():
        if amount > AMOUNT_MAX:
            raise InvalidSpec(what=what, field=field, value={slot: amount}, problem=f"is more than {AMOUNT_MAX}")

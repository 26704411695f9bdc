"""Session labels: validation, and the selectors that listings are filtered by.

Users group and find their sessions by them; kernels inherit them. Labels of agents, which
`require` selects, are separate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sokovan.domain.errors import InvalidSpec

SESSION_LABELS_MAX = 32
NAME_MAX = 63
VALUE_MAX = 128
_NAME = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._/\-]{{0,{NAME_MAX - 2}}}[A-Za-z0-9])?", re.ASCII)
_VALUE = re.compile(rf"[A-Za-z0-9._/:@+\-]{{0,{VALUE_MAX}}}", re.ASCII)
_NAME_RULE = f"is not 1 to {NAME_MAX} letters, digits and . _ - / that begin and end with a letter or digit"
_VALUE_RULE = f"is not at most {VALUE_MAX} letters, digits and . _ - / : @ +"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A condition on one label: a value, or None for any value. Valid by construction."""

    name: str
    value: str | None = None

    def __post_init__(self) -> None:
        require_label(self.name, self.value or "", what="listing", field="label", hint="write NAME or NAME=VALUE")


def require_session_labels(labels: object, *, what: str, field: str = "labels") -> None:
    """Require at most SESSION_LABELS_MAX valid labels. Raises InvalidSpec."""
    if not isinstance(labels, Mapping) or len(labels) > SESSION_LABELS_MAX:
        problem = f"must be a mapping of at most {SESSION_LABELS_MAX} labels"
        raise InvalidSpec(what=what, field=field, value=_size_of(labels), problem=problem)
    for name, value in labels.items():
        require_label(name, value, what=what, field=field)


def read_selectors(texts: Iterable[str]) -> tuple[LabelSelector, ...]:
    """Read NAME=VALUE or NAME, also several with commas. Raises InvalidSpec.

    >>> read_selectors(["team=vision,nightly"])
    (LabelSelector(name='team', value='vision'), LabelSelector(name='nightly', value=None))
    """
    parts = [part for text in texts for part in text.split(",")]
    if len(parts) > SESSION_LABELS_MAX:
        problem = f"more than {SESSION_LABELS_MAX} labels"
        raise InvalidSpec(what="listing", field="label", value=len(parts), problem=problem)
    return tuple(_selector(part) for part in parts)


def _selector(text: str) -> LabelSelector:
    name, equals, value = text.partition("=")
    return LabelSelector(name, value if equals else None)


def _size_of(labels: object) -> object:
    """The number of labels, which is shorter than all of them; other values as they are."""
    return len(labels) if isinstance(labels, Mapping) else labels


def require_label(name: object, value: object, *, what: str, field: str, hint: str = "") -> None:
    """Require a valid name and value of a label. Raises InvalidSpec."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSpec(what=what, field=field, value=name, problem=_NAME_RULE, hint=hint)
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise InvalidSpec(what=what, field=f"{field}.{name}", value=value, problem=_VALUE_RULE, hint=hint)

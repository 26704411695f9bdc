"""How the values of a spec are read: one small reader for each shape."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sokovan.sdk.spec.places import Node
from sokovan.wire.api.bodies import Amount

Read = Callable[[Node], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a spec: what it is called on the wire, how it is read, its JSON Schema."""

    wire: str
    read: Read
    schema: Mapping[str, Any]
    meaning: str


def schema_of(known: Mapping[str, Field], *, required: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of a mapping that has these keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {key: {**one.schema, "description": one.meaning} for key, one in known.items()},
    }


def entries_of(node: Node, known: Iterable[str], *, what: str) -> Mapping[str, Node]:
    """The entries of a mapping, none of which may have another key than these."""
    if node.kind != "mapping":
        raise node.place.wrong(f"{what} must be a mapping, not {node.described}")
    options = sorted(known)
    for key, value in node.entries.items():
        if key not in options:
            close = difflib.get_close_matches(key, options, n=1)
            told = f"; did you mean {close[0]!r}?" if close else ""
            hint = f"the keys of {what} are {', '.join(options)}"
            raise value.named_at.wrong(f"{what} has no key {key[:60]!r}{told}", hint=hint)
    return node.entries


def text(node: Node) -> str:
    """A text; a number that stands where a text is expected is taken as written."""
    if node.kind not in {"text", "number", "fraction"}:
        hint = "put it in quotes" if node.kind == "flag" else ""
        raise node.place.wrong(f"a text belongs here, not {node.described}", hint=hint)
    return node.text


def number(node: Node) -> int:
    """A whole number."""
    # YAML has more ways to write one, such as 0x10 and 1:30; nobody means those here.
    if node.kind != "number" or len(node.text) > 18 or not node.text.removeprefix("-").isdecimal():
        raise node.place.wrong(f"a whole number belongs here, not {node.described}")
    return int(node.text)


def flag(node: Node) -> bool:
    """True or false."""
    if node.kind != "flag":
        raise node.place.wrong(f"true or false belongs here, not {node.described}")
    return node.text.lower() in {"true", "yes", "on"}


def amount(node: Node) -> Amount:
    """How much of something: 4, 0.5 or 16GiB."""
    if node.kind == "number":
        return number(node)
    if node.kind == "fraction":
        try:
            value = float(node.text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return value
    if node.kind == "text":
        return node.text
    raise node.place.wrong(f"an amount belongs here, not {node.described}", hint="write 4, 0.5 or 16GiB")


def duration(node: Node) -> int | str:
    """Seconds, or a text like 4h."""
    if node.kind == "number":
        return number(node)
    if node.kind == "text":
        return node.text
    raise node.place.wrong(f"a duration belongs here, not {node.described}", hint="write seconds, or 90s, 30m, 4h, 2d")


def list_of(read: Read, *, what: str) -> Read:
    """A reader of a list whose items are read so."""

    def read_all(node: Node) -> list[Any]:
        if node.kind != "list":
            raise node.place.wrong(f"a list of {what} belongs here, not {node.described}")
        return [read(item) for item in node.items]

    return read_all


words = list_of(text, what="texts")


def texts(node: Node) -> dict[str, str]:
    """Texts by name."""
    return {name: text(value) for name, value in _mapping(node).items()}


def amounts(node: Node) -> dict[str, Amount]:
    """Amounts by name."""
    return {name: amount(value) for name, value in _mapping(node).items()}


def one_of(*options: str) -> Read:
    """A reader of one of these texts."""

    def read(node: Node) -> str:
        if text(node) not in options:
            close = difflib.get_close_matches(node.text, options, n=1)
            told = f"; did you mean {close[0]!r}?" if close else ""
            raise node.place.wrong(
                f"{node.described} is none of {', '.join(options)}{told}", hint=f"use one of {', '.join(options)}"
            )
        return node.text

    return read


def _mapping(node: Node) -> Mapping[str, Node]:
    if node.kind == "nothing":
        return {}
    if node.kind != "mapping":
        raise node.place.wrong(f"a mapping belongs here, not {node.described}")
    return node.entries

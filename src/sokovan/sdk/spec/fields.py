"""Readers for the values of a spec, one per type."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.spec_yaml import described, spec_error
from sokovan.wire.api.bodies import Amount
from sokovan.yaml_reader import YamlNode

Read = Callable[[YamlNode], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a spec: its wire field, its reader and its JSON Schema."""

    wire: str
    read: Read
    schema: Mapping[str, Any]
    meaning: str


def schema_of(known: Mapping[str, Field], *, required: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of a mapping with these keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {key: {**one.schema, "description": one.meaning} for key, one in known.items()},
    }


def entries_of(node: YamlNode, known: Iterable[str], *, what: str) -> Mapping[str, YamlNode]:
    """The entries of a mapping; unknown keys are refused."""
    if node.kind != "mapping":
        raise spec_error(node.position, f"{what} must be a mapping, not {described(node)}")
    options = sorted(known)
    for key, value in node.entries.items():
        if key not in options:
            raise spec_error(
                value.key_position,
                f"{what} has no key {key[:60]!r}{_suggestion(key, options)}",
                hint=f"the keys of {what} are {', '.join(options)}",
            )
    return node.entries


def text(node: YamlNode) -> str:
    """A string; a number is taken as it is written."""
    if node.kind not in {"string", "integer", "float"}:
        raise _expected("a string", node, hint="put it in quotes" if node.kind == "boolean" else "")
    return node.text


def number(node: YamlNode) -> int:
    """A whole number in decimal; YAML's other notations, such as 0x10, are refused."""
    if node.kind != "integer" or len(node.text) > 18 or not node.text.removeprefix("-").isdecimal():
        raise _expected("a whole number", node)
    return int(node.text)


def flag(node: YamlNode) -> bool:
    """True or false."""
    if node.kind != "boolean":
        raise _expected("true or false", node)
    return node.text.lower() in {"true", "yes", "on"}


def amount(node: YamlNode) -> Amount:
    """An amount of a resource: 4, 0.5 or 16GiB."""
    if node.kind == "integer":
        return number(node)
    if node.kind == "float":
        try:
            value = float(node.text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return value
    if node.kind == "string":
        return node.text
    raise _expected("an amount", node, hint="write 4, 0.5 or 16GiB")


def duration(node: YamlNode) -> int | str:
    """Seconds, or a duration such as 4h."""
    if node.kind == "integer":
        return number(node)
    if node.kind == "string":
        return node.text
    raise _expected("a duration", node, hint="write seconds, or 90s, 30m, 4h, 2d")


def list_of(read: Read, *, what: str) -> Read:
    """A reader for a list whose items are read by `read`."""

    def read_all(node: YamlNode) -> list[Any]:
        if node.kind != "list":
            raise _expected(f"a list of {what}", node)
        return [read(item) for item in node.items]

    return read_all


words = list_of(text, what="strings")


def texts(node: YamlNode) -> dict[str, str]:
    """Strings by name."""
    return {name: text(value) for name, value in _mapping(node).items()}


def amounts(node: YamlNode) -> dict[str, Amount]:
    """Amounts by name."""
    return {name: amount(value) for name, value in _mapping(node).items()}


def one_of(*options: str) -> Read:
    """A reader for one of these strings."""

    def read(node: YamlNode) -> str:
        if text(node) not in options:
            raise spec_error(
                node.position,
                f"{described(node)} is none of {', '.join(options)}{_suggestion(node.text, options)}",
                hint=f"use one of {', '.join(options)}",
            )
        return node.text

    return read


def _mapping(node: YamlNode) -> Mapping[str, YamlNode]:
    if node.kind == "null":
        return {}
    if node.kind != "mapping":
        raise _expected("a mapping", node)
    return node.entries


def _suggestion(given: str, options: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(options), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _expected(what: str, node: YamlNode, *, hint: str = "") -> InvalidSpecFile:
    return spec_error(node.position, f"expected {what}, not {described(node)}", hint=hint)

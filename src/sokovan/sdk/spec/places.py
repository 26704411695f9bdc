"""YAML that knows where it stands, so that an error can show the line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from sokovan.sdk.errors import InvalidSpecFile

# A spec is written by hand; what is larger is a mistake or an attack.
TEXT_MAX = 1024 * 1024
DEPTH_MAX = 32
NODES_MAX = 20_000
_SHOWN_MAX = 160

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which text something stands; lines and columns count from 1."""

    file: str
    line: int
    column: int
    text: str = ""

    def wrong(self, problem: str, *, hint: str = "") -> InvalidSpecFile:
        """The error that shows this place."""
        shown = self.text[:_SHOWN_MAX].rstrip()
        pointer = f"\n  | {shown}\n  | {' ' * (self.column - 1)}^" if shown and self.column <= _SHOWN_MAX else ""
        return InvalidSpecFile(f"{self.file}:{self.line}:{self.column}: {problem}{pointer}", hint=hint)


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document, with its kind and its place."""

    place: Place
    kind: str  # text, number, fraction, flag, nothing, mapping, list, other
    text: str = ""
    entries: Mapping[str, Node] = field(default_factory=dict)
    items: tuple[Node, ...] = ()
    key_place: Place | None = None

    @property
    def named_at(self) -> Place:
        """Where its key stands; without one, where it stands itself."""
        return self.key_place or self.place

    @property
    def described(self) -> str:
        """What it is, in words."""
        return {"mapping": "a mapping", "list": "a list", "nothing": "nothing"}.get(self.kind, f"{self.text[:60]!r}")


_KINDS = {
    "tag:yaml.org,2002:str": "text",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "fraction",
    "tag:yaml.org,2002:bool": "flag",
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:timestamp": "text",
}


def read_documents(text: str, file: str) -> list[Node]:
    """Every document of a YAML text. Raises InvalidSpec for what is no YAML."""
    if len(text) > TEXT_MAX:
        raise Place(file, 1, 1).wrong(f"the file is larger than {TEXT_MAX} characters")
    lines = text.splitlines()
    try:
        # The composer recurses and would overflow its stack, so the depth is looked at first.
        _refuse_depth(text, file, lines)
        nodes = [node for node in yaml.compose_all(text, Loader=_Loader) if node is not None]
    except yaml.MarkedYAMLError as error:
        raise _place(file, lines, error.problem_mark).wrong(f"this is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Place(file, 1, 1).wrong(f"this is not YAML: {str(error).splitlines()[0]}") from error
    read = [_Reading(file, lines).node(node) for node in nodes]
    return [node for node in read if node.kind != "nothing"]


def _refuse_depth(text: str, file: str, lines: list[str]) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                raise _place(file, lines, event.start_mark).wrong(f"this is nested more than {DEPTH_MAX} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _place(file: str, lines: list[str], mark: Any) -> Place:
    if mark is None:
        return Place(file, 1, 1)
    return Place(file, mark.line + 1, mark.column + 1, lines[mark.line] if mark.line < len(lines) else "")


class _Reading:
    """Turns the nodes of one document into ours, within bounds."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self._file, self._lines = file, lines
        self._left = NODES_MAX
        self._above: list[Any] = []

    def node(self, given: Any, key: Any = None) -> Node:
        """A node and all below it. Aliases are spelled out, which the bound keeps from growing without end."""
        place = _place(self._file, self._lines, given.start_mark)
        if any(given is one for one in self._above):
            raise place.wrong("this is an alias of what it stands in")
        self._above.append(given)
        read = self._read(given, key, place)
        self._above.pop()
        return read

    def _read(self, given: Any, key: Any, place: Place) -> Node:
        self._left -= 1
        if self._left < 0:
            raise place.wrong(f"the file holds more than {NODES_MAX} values")
        at = _place(self._file, self._lines, key.start_mark) if key is not None else None
        if isinstance(given, yaml.MappingNode):
            return Node(place, "mapping", entries=dict(self._entries(given)), key_place=at)
        if isinstance(given, yaml.SequenceNode):
            return Node(place, "list", items=tuple(self.node(item) for item in given.value), key_place=at)
        return Node(place, _KINDS.get(given.tag, "other"), text=given.value, key_place=at)

    def _entries(self, given: Any) -> Iterator[tuple[str, Node]]:
        seen: set[str] = set()
        for key, value in given.value:
            place = _place(self._file, self._lines, key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise place.wrong("a key must be a plain text")
            if key.value in seen:
                raise place.wrong(f"the key {key.value!r} is given twice")
            seen.add(key.value)
            yield key.value, self.node(value, key)

"""Reads YAML into nodes that know their file, line and column.

Session specs and scenarios are read with it, each within limits of its own. Duplicate
keys, aliases that contain themselves and documents beyond the limits are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_KINDS = {
    "tag:yaml.org,2002:str": "string",
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "string",
}


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1
    source: str = ""  # the whole line


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value of a document; `path` leads to it from the top, as in `agents.n1[0]`."""

    position: Position
    path: str
    kind: str  # string, integer, float, boolean, null, mapping, list, other
    tag: str
    text: str = ""
    entries: Mapping[str, YamlNode] = field(default_factory=dict)
    items: tuple[YamlNode, ...] = ()
    key: Position | None = None

    @property
    def key_position(self) -> Position:
        """Position of its key; without one, its own."""
        return self.key or self.position


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlLimits:
    """Limits of a file: characters, levels of nesting, and values per document."""

    text_max: int
    depth_max: int
    nodes_max: int


class InvalidYaml(Exception):
    """A text that is not YAML, or not within the rules of this module.

    `strings` are the scalars at the top of the document, by which a caller can name it.
    """

    def __init__(
        self, problem: str, position: Position, *, path: str = "", strings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(problem)
        self.problem, self.position, self.path = problem, position, path
        self.strings = strings or {}


def read_yaml(text: str, file: str, limits: YamlLimits) -> Iterator[YamlNode]:
    """Every document of a text, also empty ones. Raises InvalidYaml."""
    if len(text) > limits.text_max:
        raise InvalidYaml(f"the text is larger than {limits.text_max} characters", Position(file))
    lines = text.splitlines()
    try:
        # The composer recurses and would overflow the stack, so the depth is checked first.
        _check_depth(text, file, lines, limits.depth_max)
        documents = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise InvalidYaml(f"this is not YAML: {error.problem}", _position(file, lines, error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise InvalidYaml(f"this is not YAML: {str(error).splitlines()[0]}", Position(file)) from error
    for document in documents:
        if document is not None:
            yield _DocumentReader(document, file, lines, limits.nodes_max).node(document)


def _check_depth(text: str, file: str, lines: list[str], depth_max: int) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > depth_max:
                raise InvalidYaml(
                    f"values are nested more than {depth_max} deep", _position(file, lines, event.start_mark)
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _position(file: str, lines: list[str], mark: Any) -> Position:
    if mark is None:
        return Position(file)
    return Position(file, mark.line + 1, mark.column + 1, lines[mark.line] if mark.line < len(lines) else "")


class _DocumentReader:
    """Converts the nodes of one document."""

    def __init__(self, document: Any, file: str, lines: list[str], nodes_max: int) -> None:
        self._document, self._file, self._lines, self._nodes_max = document, file, lines, nodes_max
        self._left = nodes_max
        self._ancestors: list[Any] = []

    def node(self, given: Any, path: str = "", key: Any = None) -> YamlNode:
        """A node and its descendants; an alias counts as a copy, so that few aliases cannot make many values."""
        self._left -= 1
        if self._left < 0:
            raise self._invalid(f"the document holds more than {self._nodes_max} values", given, path)
        if any(given is ancestor for ancestor in self._ancestors):
            raise self._invalid("an alias may not contain itself", given, path)
        position = _position(self._file, self._lines, given.start_mark)
        at = _position(self._file, self._lines, key.start_mark) if key is not None else None
        if isinstance(given, yaml.ScalarNode):
            return YamlNode(position, path, _KINDS.get(given.tag, "other"), given.tag, given.value, key=at)
        self._ancestors.append(given)
        if isinstance(given, yaml.MappingNode):
            read = YamlNode(position, path, "mapping", given.tag, entries=self._entries(given, path), key=at)
        else:
            items = tuple(self.node(item, f"{path}[{index}]") for index, item in enumerate(given.value))
            read = YamlNode(position, path, "list", given.tag, items=items, key=at)
        self._ancestors.pop()
        return read

    def _entries(self, given: Any, path: str) -> dict[str, YamlNode]:
        entries: dict[str, YamlNode] = {}
        for key, value in given.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._invalid("a key must be a plain text", key, path)
            if key.value in entries:
                raise self._invalid(f"the key {_quoted(key.value)} is given twice", key, path)
            entries[key.value] = self.node(value, f"{path}.{key.value}" if path else key.value, key)
        return entries

    def _invalid(self, problem: str, given: Any, path: str) -> InvalidYaml:
        top = self._document.value if isinstance(self._document, yaml.MappingNode) else []
        scalars = [(key, value) for key, value in top if {type(key), type(value)} == {yaml.ScalarNode}]
        position = _position(self._file, self._lines, given.start_mark)
        return InvalidYaml(problem, position, path=path, strings={key.value: value.value for key, value in scalars})


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")

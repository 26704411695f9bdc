"""YAML with its line numbers, so that an error can say where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sokovan.domain.errors import InvalidInput, listed, quoted

# A scenario is written by hand; what is larger than this is a mistake or an attack.
NODES_MAX = 200_000
DEPTH_MAX = 64
TEXT_MAX = 32 * 1024 * 1024


class InvalidScenario(InvalidInput):
    """A scenario file that cannot be taken as it is; says file, line, scenario, key."""

    code = "invalid-scenario"
    hint = "the keys of a scenario are listed in docs/reference/scenarios.md"

    def __init__(self, *, where: str, key: str, problem: str, hint: str = "") -> None:
        self.where, self.key, self.problem = where, key, problem
        super().__init__(f"{where}: {key}: {problem}" if key else f"{where}: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file a value stands."""

    file: str
    line: int
    scenario: str = ""
    key: str = ""

    def wrong(self, problem: str, *, hint: str = "") -> InvalidScenario:
        """The error that names this place."""
        where = f"{self.file}:{self.line}"
        if self.scenario:
            where += f": scenario {quoted(self.scenario)}"
        return InvalidScenario(where=where, key=self.key, problem=problem, hint=hint)


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place. Mappings keep the place of every key."""

    content: Any
    place: Place

    def mapping(self) -> dict[str, Value]:
        """The entries of a mapping; an empty value counts as an empty mapping."""
        if self.content is None:
            return {}
        if not isinstance(self.content, dict):
            raise self.place.wrong(f"must be a mapping, not {quoted(self.plain())}")
        return self.content

    def items(self, known: tuple[str, ...]) -> dict[str, Value]:
        """The entries of a mapping, none of which may have another key than these."""
        entries = self.mapping()
        for key, value in entries.items():
            if key not in known:
                raise value.place.wrong("is not a known key", hint=f"known here are {listed(known)}")
        return entries

    def sequence(self) -> list[Value]:
        """The items of a list."""
        if self.content is None:
            return []
        if not isinstance(self.content, list):
            raise self.place.wrong(f"must be a list, not {quoted(self.plain())}")
        return self.content

    def text(self) -> str:
        """A text; numbers that stand where a name is expected are taken as written."""
        if isinstance(self.content, bool) or not isinstance(self.content, str | int):
            raise self.place.wrong(f"must be a text, not {quoted(self.plain())}")
        return str(self.content)

    def number(self, *, least: int | None = None, most: int | None = None) -> int:
        """A whole number."""
        if isinstance(self.content, bool) or not isinstance(self.content, int):
            raise self.place.wrong(f"must be a whole number, not {quoted(self.plain())}")
        if least is not None and self.content < least:
            raise self.place.wrong(f"must be {least} or more, not {self.content}")
        if most is not None and self.content > most:
            raise self.place.wrong(f"must be {most} or less, not {self.content}")
        return self.content

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.content, bool):
            raise self.place.wrong(f"must be true or false, not {quoted(self.plain())}")
        return self.content

    def plain(self) -> Any:
        """The value without places, as YAML gives it."""
        if isinstance(self.content, dict):
            return {key: value.plain() for key, value in self.content.items()}
        if isinstance(self.content, list):
            return [value.plain() for value in self.content]
        return self.content


def read_documents(text: str, file: str) -> Iterator[Value]:
    """Every document of a YAML text. Raises InvalidScenario for what is no YAML."""
    if len(text) > TEXT_MAX:
        raise Place(file, 1).wrong(f"is larger than {TEXT_MAX} characters")
    try:
        # The loader recurses and would overflow its stack, so the depth is looked at first.
        _refuse_depth(text, file)
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or str(error)
        raise Place(file, line).wrong(f"this is not YAML: {problem}") from error
    for node in nodes:
        if node is not None:
            yield _Reading().value(node, Place(file, node.start_mark.line + 1))


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _refuse_depth(text: str, file: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise Place(file, line).wrong(f"is nested more than {DEPTH_MAX} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reading:
    """Turns the nodes of one document into values, within bounds."""

    def __init__(self) -> None:
        self._left = NODES_MAX
        self._open: list[Any] = []
        self._constructor = yaml.constructor.SafeConstructor()

    def value(self, node: Any, place: Place) -> Value:
        """The value of a node and all below it."""
        self._left -= 1
        if self._left < 0:
            raise place.wrong(f"holds more than {NODES_MAX} values")
        if any(node is above for above in self._open):
            raise place.wrong("is an alias of what it stands in")
        if isinstance(node, yaml.ScalarNode):
            return Value(self._scalar(node, place), place)
        self._open.append(node)
        content: Any = self._entries(node, place) if isinstance(node, yaml.MappingNode) else self._items(node, place)
        self._open.pop()
        return Value(content, place)

    def _scalar(self, node: Any, place: Place) -> Any:
        try:
            return self._constructor.construct_object(node)
        except Exception as error:
            raise place.wrong(f"{quoted(node.value)} cannot be read as {node.tag}") from error

    def _items(self, node: Any, place: Place) -> list[Value]:
        return [self.value(item, _below(place, f"[{index}]", item)) for index, item in enumerate(node.value)]

    def _entries(self, node: Any, place: Place) -> Mapping[str, Value]:
        entries: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            at = Place(place.file, key_node.start_mark.line + 1, place.scenario, place.key)
            if key is None:
                raise at.wrong("a key must be a plain text")
            if key in entries:
                raise at.wrong(f"the key {quoted(key)} is given twice")
            if not place.key and key == "scenario" and isinstance(value_node, yaml.ScalarNode):
                place = Place(place.file, place.line, value_node.value)
            entries[key] = self.value(value_node, _below(place, key, key_node))
        return entries


def _below(place: Place, key: str, node: Any) -> Place:
    joined = f"{place.key}{key}" if key.startswith("[") or not place.key else f"{place.key}.{key}"
    return Place(place.file, node.start_mark.line + 1, place.scenario, joined)

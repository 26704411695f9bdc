"""Reads scenario files: every value carries its file, line, scenario and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from sokovan.domain.errors import InvalidInput, listed, quoted
from sokovan.yaml_reader import InvalidYaml, YamlLimits, YamlNode, read_yaml

# Scenarios are written by hand; larger files are a mistake or an attack.
NODES_MAX = 200_000
DEPTH_MAX = 64
TEXT_MAX = 32 * 1024 * 1024


class InvalidScenario(InvalidInput):
    """An invalid scenario file; the message names file, line, scenario and key."""

    code = "invalid-scenario"
    hint = "the keys of a scenario are listed in docs/reference/scenarios.md"

    def __init__(self, *, where: str, key: str, problem: str, hint: str = "") -> None:
        self.where, self.key, self.problem = where, key, problem
        super().__init__(f"{where}: {key}: {problem}" if key else f"{where}: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class ScenarioLocation:
    """The file, line, scenario and key of a value."""

    file: str
    line: int
    scenario: str = ""
    key: str = ""

    def error(self, problem: str, *, hint: str = "") -> InvalidScenario:
        """The error for a problem at this location."""
        where = f"{self.file}:{self.line}"
        if self.scenario:
            where += f": scenario {quoted(self.scenario)}"
        return InvalidScenario(where=where, key=self.key, problem=problem, hint=hint)


@dataclass(frozen=True, slots=True)
class ScenarioValue:
    """A value and its location."""

    content: Any
    location: ScenarioLocation

    def mapping(self) -> dict[str, ScenarioValue]:
        """The entries of a mapping; null counts as an empty mapping."""
        if self.content is None:
            return {}
        if not isinstance(self.content, dict):
            raise self.location.error(f"must be a mapping, not {quoted(self.plain())}")
        return self.content

    def items(self, known: tuple[str, ...]) -> dict[str, ScenarioValue]:
        """The entries of a mapping; keys that are not `known` are refused."""
        entries = self.mapping()
        for key, value in entries.items():
            if key not in known:
                raise value.location.error("is not a known key", hint=f"known here are {listed(known)}")
        return entries

    def sequence(self) -> list[ScenarioValue]:
        """The items of a list; null counts as an empty list."""
        if self.content is None:
            return []
        if not isinstance(self.content, list):
            raise self.location.error(f"must be a list, not {quoted(self.plain())}")
        return self.content

    def text(self) -> str:
        """A string; an integer is taken as its decimal digits."""
        if isinstance(self.content, bool) or not isinstance(self.content, str | int):
            raise self.location.error(f"must be a string, not {quoted(self.plain())}")
        return str(self.content)

    def number(self, *, least: int | None = None, most: int | None = None) -> int:
        """An integer within bounds."""
        if isinstance(self.content, bool) or not isinstance(self.content, int):
            raise self.location.error(f"must be a whole number, not {quoted(self.plain())}")
        if least is not None and self.content < least:
            raise self.location.error(f"must be {least} or more, not {self.content}")
        if most is not None and self.content > most:
            raise self.location.error(f"must be {most} or less, not {self.content}")
        return self.content

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.content, bool):
            raise self.location.error(f"must be true or false, not {quoted(self.plain())}")
        return self.content

    def plain(self) -> Any:
        """The value without locations."""
        if isinstance(self.content, dict):
            return {key: value.plain() for key, value in self.content.items()}
        if isinstance(self.content, list):
            return [value.plain() for value in self.content]
        return self.content


def read_documents(text: str, file: str) -> Iterator[ScenarioValue]:
    """Every document of a YAML text. Raises InvalidScenario."""
    limits = YamlLimits(text_max=TEXT_MAX, depth_max=DEPTH_MAX, nodes_max=NODES_MAX)
    try:
        for document in read_yaml(text, file, limits):
            name = document.entries.get("scenario")
            yield _value(document, scenario=name.text if name is not None else "")
    except InvalidYaml as error:
        location = ScenarioLocation(file, error.position.line, error.strings.get("scenario", ""), error.path)
        raise location.error(error.problem) from error


def _value(node: YamlNode, *, scenario: str) -> ScenarioValue:
    location = ScenarioLocation(node.position.file, node.key_position.line, scenario, node.path)
    if node.kind == "mapping":
        return ScenarioValue({key: _value(entry, scenario=scenario) for key, entry in node.entries.items()}, location)
    if node.kind == "list":
        return ScenarioValue([_value(item, scenario=scenario) for item in node.items], location)
    try:
        scalar = yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(node.tag, node.text))
    except Exception as error:
        raise location.error(f"{quoted(node.text)} cannot be read as {node.tag}") from error
    return ScenarioValue(scalar, location)

"""Reads the YAML of spec files; errors show the position and the line itself."""

from __future__ import annotations

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.yaml_reader import InvalidYaml, Position, YamlLimits, YamlNode, read_yaml

# Specs are written by hand; larger files are a mistake or an attack.
LIMITS = YamlLimits(text_max=1024 * 1024, depth_max=32, nodes_max=20_000)
_SHOWN_MAX = 160


def read_nodes(text: str, file: str) -> list[YamlNode]:
    """Every document of a spec file that is not empty. Raises InvalidSpecFile."""
    try:
        return [node for node in read_yaml(text, file, LIMITS) if node.kind != "null"]
    except InvalidYaml as error:
        raise spec_error(error.position, error.problem) from error


def spec_error(position: Position, problem: str, *, hint: str = "") -> InvalidSpecFile:
    """The error for a problem at a position; quotes the line and points at the column."""
    shown = position.source[:_SHOWN_MAX].rstrip()
    pointer = f"\n  | {shown}\n  | {' ' * (position.column - 1)}^" if shown and position.column <= _SHOWN_MAX else ""
    return InvalidSpecFile(f"{position.file}:{position.line}:{position.column}: {problem}{pointer}", hint=hint)


def described(node: YamlNode) -> str:
    """The value of a node, for an error message."""
    return {"mapping": "a mapping", "list": "a list", "null": "null"}.get(node.kind, f"{node.text[:60]!r}")

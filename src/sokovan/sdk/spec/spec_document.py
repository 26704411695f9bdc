"""A request with the document it was read from, to locate problems."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sokovan.sdk.session_request import GPU, GPU_SHARES, GPU_SLOT
from sokovan.sdk.spec.spec_yaml import spec_error
from sokovan.wire.api.system import FieldProblem
from sokovan.yaml_reader import Position, YamlNode

# Candidates for "did you mean"; scaling groups may have other slots.
SLOTS = ("cpu", "mem", "shmem", GPU, GPU_SLOT, GPU_SHARES)
# Keys of a spec whose names in requests are not their snake case.
_WIRE = {
    "run": {"command"},
    "engine": {"variant"},
    "size": {"kernels"},
    "concurrency": {"concurrency_max"},
    "replicas": {"replicas_min"},
    "maxReplicas": {"replicas_max"},
    "startupTimeout": {"startup_timeout_s"},
    "drainTimeout": {"drain_timeout_s"},
}
# Part of a request whose keys are those of the document itself.
_FLAT = "revision"
_CAPITAL = re.compile(r"[A-Z]")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class SpecDocument(Generic[B]):
    """A request and the YAML node it was read from."""

    body: B
    node: YamlNode

    def describe(self, problems: Iterable[FieldProblem], sent: B) -> str:
        """The problems of a request, each with its position in the file if it has one."""
        return "\n".join(self._describe(one, sent) for one in problems)

    def _describe(self, one: FieldProblem, sent: B) -> str:
        field, *_ = path = one.where.split("/")
        sentence = f"{one.where}: {one.problem}{_suggestion(path)}"
        # The value was overridden by an option, so it is not in the file.
        if getattr(sent, field, None) != getattr(self.body, field, None):
            return sentence
        return spec_error(self.position(path), sentence).message

    def position(self, path: Iterable[str]) -> Position:
        """Position of the value at a path of the wire type, or of its nearest ancestor."""
        node = self.node
        for part in path:
            if part == _FLAT and node is self.node:
                continue
            inner = _inner(node, part)
            if inner is None:
                break
            node = inner
        return node.position


def _inner(node: YamlNode, part: str) -> YamlNode | None:
    if node.items and part.isdecimal() and len(part) < 7:
        return node.items[int(part)] if int(part) < len(node.items) else None
    return next((value for key, value in node.entries.items() if part in _names(key)), None)


def _names(key: str) -> set[str]:
    """Possible wire fields of a key."""
    wire = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)
    return {key, wire, *_WIRE.get(key, ()), *((GPU_SLOT, GPU_SHARES) if key == GPU else ())}


def _suggestion(path: list[str]) -> str:
    """A suggestion for a mistyped slot."""
    name = path[-1]
    if "resources" not in path[:-1] or name in SLOTS:
        return ""
    close = difflib.get_close_matches(name, SLOTS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

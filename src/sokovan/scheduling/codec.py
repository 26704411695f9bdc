"""JSON encoding of snapshots and verdicts, without loss.

A decision can be replayed from a file: the same snapshot gives the same plan.
"""

from __future__ import annotations

import json
from typing import TypeVar

from sokovan.domain.errors import InvalidInput, quoted
from sokovan.domain.plain_values import InvalidDocument, from_plain, to_plain
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Verdict

VERSION = 1

T = TypeVar("T")


class InvalidSnapshot(InvalidInput):
    """A document that is not a snapshot or verdict of this version."""

    code = "invalid-snapshot"
    hint = "write the file with the same version of sokovan that reads it"

    def __init__(self, *, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key}: {problem}" if key else problem)


def snapshot_to_json(snapshot: SystemSnapshot, *, indent: int | None = None) -> str:
    """Encode a snapshot as JSON."""
    return _encode("snapshot", snapshot, indent)


def snapshot_from_json(text: str) -> SystemSnapshot:
    """Decode a snapshot. Raises InvalidSnapshot."""
    return _decode("snapshot", SystemSnapshot, text)


def verdict_to_json(verdict: Verdict) -> str:
    """Encode a verdict as JSON."""
    return _encode("verdict", verdict, None)


def verdict_from_json(text: str) -> Verdict:
    """Decode a verdict. Raises InvalidSnapshot."""
    return _decode("verdict", Verdict, text)


def _encode(kind: str, value: object, indent: int | None) -> str:
    return json.dumps({"sokovan": kind, "version": VERSION, kind: to_plain(value)}, indent=indent, ensure_ascii=False)


def _decode(kind: str, target: type[T], text: str) -> T:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSnapshot(key="", problem=f"this is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("sokovan") != kind:
        raise InvalidSnapshot(key="sokovan", problem=f"this is not a {kind}")
    if document.get("version") != VERSION:
        raise InvalidSnapshot(key="version", problem=f"is {quoted(document.get('version'))}, supported is {VERSION}")
    try:
        return from_plain(target, document.get(kind), key=kind)
    except InvalidDocument as error:
        raise InvalidSnapshot(key=error.key, problem=error.problem) from error

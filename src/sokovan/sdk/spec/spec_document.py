"""A session with its document: what the server finds has a place there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sokovan.sdk.session_request import GPU, GPU_SHARES, GPU_SLOT
from sokovan.sdk.spec.places import Node, Place
from sokovan.wire.api.sessions import SessionBody
from sokovan.wire.api.system import FieldProblem

# A pool may know more; these are meant by most.
SLOTS = ("cpu", "mem", "shmem", GPU, GPU_SLOT, GPU_SHARES)
# Keys of a spec that have another name on the wire than their own in small letters.
_WIRE = {"run": "command"}
_HUMP = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True)
class SpecDocument:
    """What is asked for, and where it is written."""

    body: SessionBody
    node: Node

    def describe(self, problems: Iterable[FieldProblem], sent: SessionBody) -> str:
        """What is wrong with what was sent, each problem with its line where it has one."""
        return "\n".join(self._told(one, sent) for one in problems)

    def _told(self, one: FieldProblem, sent: SessionBody) -> str:
        field, *_ = path = one.where.split("/")
        sentence = f"{one.where}: {one.problem}{_meant(path)}"
        # What an option said instead is not in the file.
        if getattr(sent, field, None) != getattr(self.body, field, None):
            return sentence
        return self.place(path).wrong(sentence).message

    def place(self, path: Iterable[str]) -> Place:
        """Where the value of a path of the wire stands, or the nearest there is above it."""
        node = self.node
        for part in path:
            inner = _inner(node, part)
            if inner is None:
                break
            node = inner
        return node.place


def _inner(node: Node, part: str) -> Node | None:
    if node.items and part.isdecimal() and len(part) < 7:
        return node.items[int(part)] if int(part) < len(node.items) else None
    return next((value for key, value in node.entries.items() if part in _names(key)), None)


def _names(key: str) -> set[str]:
    """What a key may be called on the wire."""
    wire = _WIRE.get(key) or _HUMP.sub(lambda found: f"_{found[0].lower()}", key)
    return {key, wire, *((GPU_SLOT, GPU_SHARES) if key == GPU else ())}


def _meant(path: list[str]) -> str:
    """The slot that was meant, where one was mistyped."""
    name = path[-1]
    if "resources" not in path[:-1] or name in SLOTS:
        return ""
    close = difflib.get_close_matches(name, SLOTS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

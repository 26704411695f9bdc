"""Signatures of public methods, to compare the async client with the sync one."""

from __future__ import annotations

import inspect


def signatures(kind: type) -> dict[str, list[tuple[str, object, object]]]:
    """The public methods of a class with their parameters."""
    members = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: _parameters(member) for name, member in members.items()}


def _parameters(member: object) -> list[tuple[str, object, object]]:
    if not inspect.isfunction(member):
        return []
    found = inspect.signature(member).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]

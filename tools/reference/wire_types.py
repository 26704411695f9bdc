"""The API's types in TypeScript, for the dashboard."""

from __future__ import annotations

import importlib
import types
import typing
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sokovan.wire.api.bodies import StrictBody

# The parts of the API that the dashboard uses.
MODULES = (
    "system", "evictions", "sessions", "batches", "explanations", "fleet", "topology", "tenancy", "deployments",
    "routes",
)  # fmt: skip
_PLAIN: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def page() -> str:
    """One interface per dataclass, in the order of the modules."""
    parts = [_interface(kind) for name in MODULES for kind in _types_of(name)]
    return "\n".join(parts)


def _types_of(name: str) -> list[type]:
    module = importlib.import_module(f"sokovan.wire.api.{name}")
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
    ]


def _interface(kind: type) -> str:
    hints = get_type_hints(kind)
    is_body = issubclass(kind, StrictBody)
    summary = (kind.__doc__ or "").strip().partition("\n")[0]
    lines = [f"  {one.name}{_optional(one, is_body=is_body)}: {written(hints[one.name])};" for one in fields(kind)]
    return "\n".join([f"/** {summary} */", f"export interface {kind.__name__} {{", *lines, "}", ""])


def _optional(one: Field[Any], *, is_body: bool) -> str:
    """Requests may omit what has a default; responses never do."""
    has_default = one.default is not MISSING or one.default_factory is not MISSING
    return "?" if is_body and has_default else ""


def written(hint: Any) -> str:
    """A type as TypeScript writes it.

    >>> written(dict[str, list[int]] | None)
    'Record<string, number[]> | null'
    """
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is Any:
        return "unknown"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {typing.Union, types.UnionType}:
        return " | ".join(dict.fromkeys(written(one) for one in arguments))
    if origin is list:
        inner = written(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<{written(arguments[0])}, {written(arguments[1])}>"
    return str(hint.__name__)

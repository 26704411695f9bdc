"""Converts values to plain JSON and back, without loss, by type annotations.

Stores, files and networks hold mappings, lists, strings and numbers; this is the only
conversion between them and frozen dataclasses. A value that does not fit is rejected
with its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sokovan.domain.errors import InvalidInput, SokovanError, listed, quoted
from sokovan.domain.slots import ResourceSlot, SlotLimits

T = TypeVar("T")


class InvalidDocument(InvalidInput):
    """A document does not match its type."""

    code = "invalid-document"
    hint = "correct the value at the path named above"

    def __init__(self, *, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key}: {problem}" if key else problem)


def to_plain(value: Any) -> Any:
    """The value as mappings, lists, strings and numbers."""
    if isinstance(value, ResourceSlot | SlotLimits):
        return dict(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) or hasattr(value, "_fields"):
        return {name: to_plain(getattr(value, name)) for name in _names(value.__class__)}
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(to_plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def canonical_text(value: Any) -> str:
    """The value as JSON; equal values give equal texts."""
    return json.dumps(to_plain(value), sort_keys=True)


def from_plain(target: type[T], value: Any, *, key: str) -> T:
    """A value of type `target` from its plain form. Raises InvalidDocument."""
    found: T = _build(target, value, key)
    return found


def _build(target: Any, value: Any, key: str) -> Any:
    """A value of the annotated type, from its plain form."""
    origin = get_origin(target)
    if target is Any or target is object:
        return value
    if origin in {Union, UnionType}:
        return _build_union(get_args(target), value, key)
    if origin is tuple:
        return _build_tuple(get_args(target), _listed(value, key), key)
    if origin is frozenset:
        return frozenset(_build(get_args(target)[0], item, f"{key}[]") for item in _listed(value, key))
    if origin is not None and issubclass(origin, Mapping):
        inner, item_type = get_args(target)
        entries = _mapped(value, key)
        return {_build(inner, name, key): _build(item_type, item, f"{key}.{name}") for name, item in entries.items()}
    return _build_plain(getattr(target, "__supertype__", target), value, key)


def _build_union(options: tuple[Any, ...], value: Any, key: str) -> Any:
    if value is None and NoneType in options:
        return None
    kinds = [option for option in options if option is not NoneType]
    if len(kinds) > 1:
        kinds = [option for option in kinds if type(value) is getattr(option, "__supertype__", option)] or kinds
    return _build(kinds[0], value, key)


def _build_tuple(parts: tuple[Any, ...], items: list[Any], key: str) -> tuple[Any, ...]:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_build(parts[0], item, f"{key}[{index}]") for index, item in enumerate(items))
    if len(items) != len(parts):
        raise InvalidDocument(key=key, problem=f"has {len(items)} items, expected {len(parts)}")
    return tuple(_build(part, item, f"{key}[{i}]") for i, (part, item) in enumerate(zip(parts, items, strict=True)))


def _build_plain(target: Any, value: Any, key: str) -> Any:
    if target in {ResourceSlot, SlotLimits} or (isinstance(target, type) and issubclass(target, Enum)):
        return _guarded(key, lambda: target(_mapped(value, key) if target in {ResourceSlot, SlotLimits} else value))
    if is_dataclass(target) or hasattr(target, "_fields"):
        return _build_record(target, _mapped(value, key), key)
    if target is bool or target is int or target is str:
        if type(value) is not target:
            raise InvalidDocument(key=key, problem=f"is {quoted(value)}, expected {target.__name__}")
        return value
    raise InvalidDocument(key=key, problem=f"cannot hold {quoted(value)}")


def _build_record(target: Any, entries: Mapping[str, Any], key: str) -> Any:
    hints = _hints(target)
    unknown = set(entries) - set(hints)
    if unknown:
        raise InvalidDocument(key=key, problem=f"has unknown keys {listed(unknown)}")
    missing = [name for name in _required(target) if name not in entries]
    if missing:
        raise InvalidDocument(key=key, problem=f"lacks {listed(missing)}")
    values = {name: _build(hints[name], item, f"{key}.{name}") for name, item in entries.items()}
    return _guarded(key, lambda: target(**values))


def _guarded(key: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except (SokovanError, ValueError) as error:
        message = error.message if isinstance(error, SokovanError) else str(error)
        raise InvalidDocument(key=key, problem=message) from error


def _mapped(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocument(key=key, problem=f"is {quoted(value)}, expected a mapping")
    return value


def _listed(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidDocument(key=key, problem=f"is {quoted(value)}, expected a list")
    return value


@cache
def _names(kind: Hashable) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind))
    return tuple(getattr(kind, "_fields", ()))


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in _names(kind)}


@cache
def _required(kind: type) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    defaults = getattr(kind, "_field_defaults", {})
    return tuple(name for name in _names(kind) if name not in defaults)

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
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from sokovan.domain.errors import InvalidInput, SokovanError, listed, quoted
from sokovan.domain.slots import ResourceSlot, SlotLimits

T = TypeVar("T")

# Makes a value from its plain form and the path of that form in the document.
Build: TypeAlias = Callable[[Any, str], Any]
_SCALARS = (bool, int, str)
_PLAIN = frozenset({bool, int, str, float, NoneType})


class InvalidDocument(InvalidInput):
    """A document does not match its type."""

    code = "invalid-document"
    hint = "correct the value at the path named above"

    def __init__(self, *, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key}: {problem}" if key else problem)


def to_plain(value: Any) -> Any:
    """The value as mappings, lists, strings and numbers."""
    kind = value.__class__
    return value if kind in _PLAIN else _plain_form(kind)(value)


@cache
def _plain_form(kind: Any) -> Callable[[Any], Any]:
    """The function that makes values of a class plain; classes are examined once."""
    if issubclass(kind, ResourceSlot | SlotLimits):
        return dict
    if issubclass(kind, Enum):
        return lambda value: value.value
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        names = _names(kind)
        return lambda value: {name: to_plain(getattr(value, name)) for name in names}
    if issubclass(kind, Mapping):
        return lambda value: {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if issubclass(kind, frozenset):
        return lambda value: sorted([to_plain(item) for item in value])
    if issubclass(kind, list | tuple):
        return lambda value: [to_plain(item) for item in value]
    return lambda value: value


def canonical_text(value: Any) -> str:
    """The value as JSON; equal values give equal texts."""
    return json.dumps(to_plain(value), sort_keys=True)


def from_plain(target: type[T], value: Any, *, key: str) -> T:
    """A value of type `target` from its plain form. Raises InvalidDocument."""
    kind: Any = target  # for mypy a type is not hashable, and so no key of a cache
    found: T = _builder(kind)(value, key)
    return found


@cache
def _builder(target: Any) -> Build:
    """The function that makes values of an annotated type; types are examined once."""
    origin, parts = get_origin(target), get_args(target)
    if target is Any or target is object:
        return lambda value, _key: value
    if origin in {Union, UnionType}:
        return _union_builder(parts)
    if origin is tuple:
        return _tuple_builder(parts)
    if origin is frozenset:
        build = _builder(parts[0])
        return lambda value, key: frozenset(build(item, f"{key}[]") for item in _listed(value, key))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_builder(*parts)
    return _plain_builder(getattr(target, "__supertype__", target))


def _union_builder(options: tuple[Any, ...]) -> Build:
    builders = [(getattr(kind, "__supertype__", kind), _builder(kind)) for kind in options if kind is not NoneType]

    def build(value: Any, key: str) -> Any:
        if value is None and NoneType in options:
            return None
        return next((make for kind, make in builders if type(value) is kind), builders[0][1])(value, key)

    return build


def _tuple_builder(parts: tuple[Any, ...]) -> Build:
    if len(parts) == 2 and parts[1] is Ellipsis:
        each = _builder(parts[0])
        return lambda value, key: tuple(each(item, f"{key}[{index}]") for index, item in enumerate(_listed(value, key)))
    builders = [_builder(part) for part in parts]

    def build(value: Any, key: str) -> tuple[Any, ...]:
        items = _listed(value, key)
        if len(items) != len(builders):
            raise InvalidDocument(key=key, problem=f"has {len(items)} items, expected {len(builders)}")
        return tuple(make(item, f"{key}[{i}]") for i, (make, item) in enumerate(zip(builders, items, strict=True)))

    return build


def _mapping_builder(name_type: Any, item_type: Any) -> Build:
    build_name, build_item = _builder(name_type), _builder(item_type)

    def build(value: Any, key: str) -> dict[Any, Any]:
        entries = _mapped(value, key)
        return {build_name(name, key): build_item(item, f"{key}.{name}") for name, item in entries.items()}

    return build


def _plain_builder(target: Any) -> Build:
    if target in {ResourceSlot, SlotLimits}:
        return lambda value, key: _guarded(key, lambda: target(_mapped(value, key)))
    if isinstance(target, type) and issubclass(target, Enum):
        return lambda value, key: _guarded(key, lambda: target(value))
    if is_dataclass(target) or hasattr(target, "_fields"):
        return lambda value, key: _build_record(target, _mapped(value, key), key)
    if target in _SCALARS:
        return partial(_build_scalar, target)
    return _refuse


def _build_scalar(target: type, value: Any, key: str) -> Any:
    if type(value) is not target:
        raise InvalidDocument(key=key, problem=f"is {quoted(value)}, expected {target.__name__}")
    return value


def _refuse(value: Any, key: str) -> Any:
    raise InvalidDocument(key=key, problem=f"cannot hold {quoted(value)}")


def _build_record(target: Any, entries: Mapping[str, Any], key: str) -> Any:
    builders = _field_builders(target)
    unknown = entries.keys() - builders.keys()
    if unknown:
        raise InvalidDocument(key=key, problem=f"has unknown keys {listed(unknown)}")
    missing = [name for name in _required(target) if name not in entries]
    if missing:
        raise InvalidDocument(key=key, problem=f"lacks {listed(missing)}")
    values: dict[str, Any] = {}
    for name, item in entries.items():
        scalar, build = builders[name]
        # Most fields are scalars of the right type, and their paths are not needed.
        values[name] = item if type(item) is scalar else build(item, f"{key}.{name}")
    return _guarded(key, lambda: target(**values))


@cache
def _field_builders(kind: type) -> dict[str, tuple[type | None, Build]]:
    """The scalar type of each field, None for other types, and its function."""
    hints = get_type_hints(kind)
    plain = {name: getattr(hints[name], "__supertype__", hints[name]) for name in _names(kind)}
    return {name: (plain[name] if plain[name] in _SCALARS else None, _builder(hints[name])) for name in plain}


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
def _required(kind: type) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    defaults = getattr(kind, "_field_defaults", {})
    return tuple(name for name in _names(kind) if name not in defaults)

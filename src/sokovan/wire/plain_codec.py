"""Wire objects as JSON and back, with the standard library alone.

A command reads one or two short responses, and loading msgspec takes longer than all of
its other work on them. This module reads a valid response to the same objects; it refuses
whatever it is not sure of, which msgspec then reads or explains.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]


class NotPlain(Exception):  # an outcome, which the caller expects
    """The text is no valid object of the type, or this module does not know."""


def plain(value: Any) -> Any:
    """A wire object as dictionaries and lists, under the names of the API."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def encoded(value: Any) -> bytes:
    """A wire object, or dictionaries and lists, as JSON. Raises ValueError for NaN."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def read_plain(content: bytes | str, kind: Any) -> Any:
    """Read JSON as an object of a type. Raises NotPlain."""
    try:
        text = content if isinstance(content, str) else content.decode()
        # JSON may escape half of a character, which is no text.
        if "\\ud" in text or "\\uD" in text:
            raise NotPlain
        return _reader(kind)(json.loads(text, parse_constant=_refuse))
    except (ValueError, TypeError, RecursionError) as error:
        raise NotPlain(str(error)) from error


def _refuse(value: object) -> NoReturn:
    raise NotPlain(f"unexpected {value!r:.60}")


@cache
def _reader(kind: Any) -> Reader:
    """The function that checks a value of a type, and makes its objects."""
    if kind is Any or kind is object:
        return _as_it_is
    if kind in _ATOMS:
        return _ATOMS[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        return _ObjectReader(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union or origin is types.UnionType:
        return _union_reader(inner)
    if origin is list:
        return _list_reader(inner[0])
    if origin is dict and inner[0] is str:
        return _mapping_reader(inner[1])
    if origin is tuple and Ellipsis not in inner:
        return _tuple_reader(inner)
    if origin is Literal:
        return _literal_reader(inner)
    raise NotPlain(f"objects of {kind}")


def _as_it_is(value: Any) -> Any:
    return value


def _text(value: Any) -> Any:
    return value if type(value) is str else _refuse(value)


def _whole(value: Any) -> Any:
    # A truth value is a whole number in Python, not in JSON.
    return value if type(value) is int else _refuse(value)


def _truth(value: Any) -> Any:
    return value if type(value) is bool else _refuse(value)


def _number(value: Any) -> Any:
    return float(value) if type(value) in {int, float} else _refuse(value)


def _nothing(value: Any) -> Any:
    return None if value is None else _refuse(value)


_ATOMS: Mapping[Any, Reader] = {str: _text, int: _whole, float: _number, bool: _truth, type(None): _nothing}


def _union_reader(kinds: tuple[Any, ...]) -> Reader:
    """One of several types, which a value shows by itself: None, atoms, and one other type."""
    others = [each for each in kinds if each not in _ATOMS]
    if len(others) > 1:
        raise NotPlain(f"objects of one of {kinds}")
    atoms = {each for each in kinds if each in _ATOMS}
    other = others[0] if others else None

    def read(value: Any) -> Any:
        if type(value) in atoms:
            return value
        if type(value) is int and float in atoms:
            return float(value)
        return _refuse(value) if other is None else _reader(other)(value)

    return read


def _list_reader(kind: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            _refuse(value)
        if not value:  # as most lists are; their type is not looked at
            return []
        one = _reader(kind)
        return [one(each) for each in value]

    return read


def _tuple_reader(kinds: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(kinds):
            _refuse(value)
        return tuple(_reader(kind)(each) for kind, each in zip(kinds, value, strict=True))

    return read


def _mapping_reader(kind: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            _refuse(value)
        if not value:
            return {}
        one = _reader(kind)
        return {name: one(each) for name, each in value.items()}

    return read


def _literal_reader(choices: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        return value if type(value) is str and value in choices else _refuse(value)

    return read


class _Part(NamedTuple):
    """A field of a dataclass: its type, which is read late, and whether it may be missing."""

    name: str
    kind: Any
    optional: bool


class _ObjectReader:
    """Makes dataclasses; keys that they do not have are ignored, as newer servers send them."""

    def __init__(self, kind: type[Any]) -> None:
        hints = get_type_hints(kind)
        self._kind = kind
        self._parts = [_Part(each.name, hints[each.name], _has_default(each)) for each in fields(kind)]

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict:
            _refuse(value)
        given: dict[str, Any] = {}
        for name, kind, optional in self._parts:
            if name in value:
                given[name] = _reader(kind)(value[name])
            elif not optional:
                _refuse(name)
        return self._kind(**given)


def _has_default(one: Field[Any]) -> bool:
    return one.default is not MISSING or one.default_factory is not MISSING

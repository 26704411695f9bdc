"""Parses request bodies strictly; every problem is located by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from sokovan.api.access.request_limits import LIST_MAX, require_shallow
from sokovan.api.errors import UnsupportedMedia
from sokovan.domain.errors import InvalidName, quoted
from sokovan.domain.ids import NAME_PATTERN
from sokovan.domain.problems import InvalidRequest, Problem

B = TypeVar("B")

PROBLEMS_MAX = 50
JSON_MEDIA = "application/json"
# Union variants, which pydantic appends to the path.
_VARIANTS = frozenset({"int", "float", "str", "bool", "list[str]"})

_adapters: dict[type, TypeAdapter[Any]] = {}


async def read_body(request: Request, kind: type[B]) -> B:
    """The body as a `kind`. Raises UnsupportedMedia, BodyTooLarge, InvalidRequest."""
    media = request.headers.get("content-type", "")
    if media.partition(";")[0].strip().lower() != JSON_MEDIA:
        raise UnsupportedMedia(f"the body is {quoted(media)}, not JSON")
    return parsed(await request.body(), kind)


def parsed(text: bytes, kind: type[B]) -> B:
    """A value of type `kind` from JSON: no coercion, no unknown keys."""
    require_shallow(text)
    try:
        value: B = _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidRequest(field_problems(found)) from None
    # Each entry of a list takes at least two bytes.
    long = list(_long_lists(value, "")) if len(text) > 2 * LIST_MAX else []
    if long:
        raise InvalidRequest(long)
    return value


def field_problems(found: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Pydantic's errors as problems, one per path."""
    found_at: dict[str, list[str]] = {}
    for one in found:
        place = list(one["loc"])
        if len(place) > 1 and place[-1] in _VARIANTS:
            place.pop()
        messages = found_at.setdefault("/".join(str(part) for part in place) or "body", [])
        is_name = one.get("ctx", {}).get("pattern") == NAME_PATTERN
        message = f"is not a name: {InvalidName.hint}" if is_name else one["msg"]
        if message not in messages:
            messages.append(message)
    return [Problem(where, _sentence(messages)) for where, messages in list(found_at.items())[:PROBLEMS_MAX]]


def _adapter(kind: type[B]) -> TypeAdapter[B]:
    """The cached adapter of a type: creating one is slower than parsing a body."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def _sentence(messages: Sequence[str]) -> str:
    return ", or ".join(message[:1].lower() + message[1:] for message in messages)


def _long_lists(value: object, where: str) -> Iterator[Problem]:
    if isinstance(value, list | dict) and len(value) > LIST_MAX:
        yield Problem(where, f"has {len(value)} entries, {LIST_MAX} is the limit")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if is_dataclass(item):
                yield from _long_lists(item, f"{where}/{index}/")
    elif is_dataclass(value):
        for one in fields(value):
            yield from _long_lists(getattr(value, one.name), f"{where}{one.name}")

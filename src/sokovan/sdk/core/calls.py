"""Requests to the API as data: method, path, body, and the type of the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from sokovan.sdk.errors import InvalidObjectName, InvalidSetting

T_co = TypeVar("T_co", covariant=True)

PREFIX = "/api/v1"
REF_MAX = 300
PAGE_MAX = 100
# The place in a stream from which it is resumed.
SEEN_HEADER = "Last-Event-ID"
Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T_co]):
    """A request; `repeatable` if sending it twice is safe (idempotent).

    `content` is a body that is not JSON.
    """

    method: str
    path: str
    answer: type[T_co]
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Nothing:
    """The response of a request without one."""


def api_path(*segments: str) -> str:
    """A path of the API; segments are escaped. Raises InvalidObjectName."""
    return PREFIX + "".join(f"/{_segment(each)}" for each in segments)


def query(parameters: Query) -> dict[str, str]:
    """Encode the query parameters that are set."""
    given = {name: value for name, value in parameters.items() if value is not None and value is not False}
    return {name: "true" if value is True else str(value) for name, value in given.items()}


def filters_query(
    what: str, options: Mapping[str, Any], known: type, *, limit: int | None = None, cursor: str | None = None
) -> dict[str, str]:
    """The query of a page of a list. Raises InvalidSetting for unknown filters.

    Several values of a filter are separated by commas.
    """
    names = sorted(known.__annotations__)
    unknown = sorted(options.keys() - set(names))
    if unknown:
        raise InvalidSetting(f"{what} have no filter {unknown[0]!r}", hint=f"the filters are {', '.join(names)}")
    values = {name: ",".join(value) if isinstance(value, list | tuple) else value for name, value in options.items()}
    return query({**values, "limit": limit, "cursor": cursor})


def sparse(body: object) -> Any:
    """A body without fields at their default, which an older server may not know."""
    if is_dataclass(body) and not isinstance(body, type):
        given = {each.name: getattr(body, each.name) for each in fields(body) if not _is_default(body, each)}
        return {name: sparse(value) for name, value in given.items()}
    if isinstance(body, list | tuple):
        return [sparse(item) for item in body]
    return dict(body) if isinstance(body, Mapping) else body


def _is_default(body: object, one: Any) -> bool:
    value = getattr(body, one.name)
    if one.default_factory is not MISSING:
        return bool(value == one.default_factory())
    return bool(one.default is not MISSING and value == one.default)


def _segment(name: str) -> str:
    # Servers and proxies unescape "..", so that escaping it is not enough.
    if not name or len(name) > REF_MAX or any(step in {"", ".", ".."} for step in name.split("/")):
        raise InvalidObjectName(f"{name[:REF_MAX]!r} is not a valid name")
    return quote(name, safe="/:@+")

"""Pagination with opaque cursors.

A cursor is only a position. A forged cursor gives no further access: the listing itself
is filtered.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from fastapi import Query
from starlette.responses import Response

from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.domain.ids import is_name
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import SessionSummary
from sokovan.domain.slots import devices_in_thousandths
from sokovan.ports.repositories.sessions import NO_REASON, SessionPosition, SessionSort

I = TypeVar("I")  # noqa: E741  # an item, as T is a type

PAGE_MAX = 500
PAGE_DEFAULT = 100
CURSOR_MAX = 400
PLACE_MAX = 2**63 - 1
# Items that are encoded before other tasks run.
_ENCODED = 100
_NUMBERS = frozenset({SessionSort.KERNELS, SessionSort.GPUS})

Limit: TypeAlias = Annotated[int, Query(ge=1, le=PAGE_MAX, description="The maximum number of items.")]
Cursor: TypeAlias = Annotated[
    str | None, Query(max_length=CURSOR_MAX, description="The cursor: `next` of the previous page.")
]


def cursor_of(place: int | str) -> str:
    """The cursor of a position."""
    return base64.urlsafe_b64encode(str(place).encode()).decode().rstrip("=")


def place_of(cursor: str) -> str:
    """The position in a cursor. Raises InvalidRequest."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error):
        raise _refused() from None


def number_of(cursor: str | None) -> int | None:
    """The position in a cursor of a numbered list. Raises InvalidRequest."""
    if cursor is None:
        return None
    return _number(place_of(cursor))


def _number(place: str) -> int:
    if not place.isascii() or not place.isdigit() or len(place) > 19 or int(place) > PLACE_MAX:
        raise _refused()
    return int(place)


def page_by_name(
    items: Sequence[I], name: Callable[[I], str], *, limit: int, cursor: str | None
) -> tuple[list[I], str | None]:
    """A page of items ordered by name, and the cursor of the next page."""
    after = place_of(cursor) if cursor is not None else ""
    rest = [item for item in sorted(items, key=name) if cursor is None or name(item) > after]
    page = rest[:limit]
    return page, cursor_of(name(page[-1])) if len(rest) > limit else None


async def page_response(items: Iterable[object], following: str | None) -> Response:
    """A page as a JSON response; other tasks run while a long one is encoded.

    Items of an iterator are made as they are encoded.
    """
    parts: list[bytes] = []
    for item in items:
        parts.append(msgspec.json.encode(item))
        if len(parts) % _ENCODED == 0:
            await yield_to_others()
    body = b'{"items":[%s],"next":%s}' % (b",".join(parts), msgspec.json.encode(following))
    return Response(body, media_type=JSON_MEDIA)


async def yield_to_others() -> None:
    """Let other tasks run between two steps that each hold the event loop for long."""
    await asyncio.sleep(0)  # noqa: TID251  # a yield, not a wait


async def encoded_fields(content: Any) -> bytes:
    """A wide object as JSON, field by field: other tasks run between them."""
    parts: list[bytes] = []
    for one in fields(content):
        parts.append(b"%s:%s" % (msgspec.json.encode(one.name), msgspec.json.encode(getattr(content, one.name))))
        await yield_to_others()
    return b"{%s}" % b",".join(parts)


def name_after(cursor: str | None) -> str:
    """The name that a page begins after, empty for the first. Raises InvalidRequest."""
    name = "" if cursor is None else place_of(cursor)
    if cursor is not None and not is_name(name):
        raise _refused()
    return name


def session_cursor(last: SessionSummary, by: SessionSort, reason: str | None) -> str:
    """The cursor after a session that is listed with this reason.

    It has the value that the list is sorted by, since that of the session may change before the next page is read.
    """
    if by is SessionSort.SUBMITTED:
        return cursor_of(last.place)
    return cursor_of(f"{last.place} {_sorted_by(last, by, reason)}")


def session_position(cursor: str | None, by: SessionSort) -> SessionPosition | None:
    """The position in a cursor. Raises InvalidRequest."""
    if cursor is None or by is SessionSort.SUBMITTED:
        place = number_of(cursor)
        return None if place is None else SessionPosition(place)
    place_text, separator, value = place_of(cursor).partition(" ")
    # PostgreSQL rejects some strings.
    if not separator or not value.isascii() or not value.isprintable():
        raise _refused()
    return SessionPosition(_number(place_text), _number(value) if by in _NUMBERS else value)


def _sorted_by(one: SessionSummary, by: SessionSort, reason: str | None) -> str | int:
    match by:
        case SessionSort.NAME:
            return one.spec.name or one.session_id
        case SessionSort.USER:
            return one.spec.owner.user
        case SessionSort.QUEUE:
            return one.spec.queue
        case SessionSort.KERNELS:
            return one.spec.size
        case SessionSort.GPUS:
            return devices_in_thousandths(one.spec.requested_slots())
        case SessionSort.REASON:
            return (reason if one.status is SessionStatus.PENDING else one.cause) or NO_REASON
        case _:
            return one.status.value


def _refused() -> InvalidRequest:
    return InvalidRequest([Problem("query/cursor", "is not a cursor; use `next` of a page")])

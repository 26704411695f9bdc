"""Pagination with opaque cursors.

A cursor is only a position. A forged cursor gives no further access: the listing itself
is filtered.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from fastapi import Query
from starlette.responses import Response

from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.domain.ids import is_name
from sokovan.domain.problems import InvalidRequest, Problem

I = TypeVar("I")  # noqa: E741  # an item, as T is a type

PAGE_MAX = 500
PAGE_DEFAULT = 100
CURSOR_MAX = 400
PLACE_MAX = 2**63 - 1
# Items that are encoded before other tasks run.
_ENCODED = 100

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
    place = place_of(cursor)
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


async def page_response(items: Sequence[object], following: str | None) -> Response:
    """A page as a JSON response; other tasks run while a long one is encoded."""
    parts: list[bytes] = []
    for item in items:
        parts.append(msgspec.json.encode(item))
        if len(parts) % _ENCODED == 0:
            await asyncio.sleep(0)  # noqa: TID251  # yields, so that a long page does not block the event loop
    body = b'{"items":[%s],"next":%s}' % (b",".join(parts), msgspec.json.encode(following))
    return Response(body, media_type=JSON_MEDIA)


def name_after(cursor: str | None) -> str:
    """The name that a page begins after, empty for the first. Raises InvalidRequest."""
    name = "" if cursor is None else place_of(cursor)
    if cursor is not None and not is_name(name):
        raise _refused()
    return name


def _refused() -> InvalidRequest:
    return InvalidRequest([Problem("query/cursor", "is not a cursor; use `next` of a page")])

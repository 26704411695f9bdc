"""Bodies that are read line by line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from sokovan.api.errors import UnsupportedMedia
from sokovan.api.streaming.request_lines import request_lines
from sokovan.wire.api.batches import LINES_MEDIA


def request_with(parts: Sequence[bytes], media: str = LINES_MEDIA) -> Request:
    """A request whose body arrives in these parts."""
    waiting = [
        {"type": "http.request", "body": part, "more_body": place + 1 < len(parts)} for place, part in enumerate(parts)
    ]

    async def receive() -> Message:
        return waiting.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", media.encode())]}
    return Request(scope, receive)


async def lines_of(*parts: bytes, line_max: int = 10) -> list[bytes | None]:
    return [line async for line in request_lines(request_with(parts), line_max=line_max)]


@pytest.mark.parametrize(
    "parts",
    [
        (b"one\ntwo\nthree",),
        (b"on", b"e\ntw", b"o\n", b"three\n"),
        (b"o", b"n", b"e", b"\r\n\n\ntwo\n", b"three"),
    ],
)
async def test_lines_are_the_same_however_the_body_arrives(parts: tuple[bytes, ...]) -> None:
    assert [line and line.strip() for line in await lines_of(*parts)] == [b"one", b"two", b"three"]


async def test_a_line_that_is_too_long_is_left_out_alone() -> None:
    long = b"x" * 11
    for parts in (
        (b"a\n" + long + b"\nb",),
        (b"a\n" + long[:6], long[6:] + b"yy", b"z\nb\n"),
        (b"a\n", long, long, b"\nb"),
    ):
        assert await lines_of(*parts) == [b"a", None, b"b"]
    assert await lines_of(b"a\n", long) == [b"a", None]


async def test_no_more_than_a_line_and_a_part_is_held() -> None:
    # Were the long line kept, the last part would be added to it.
    assert await lines_of(*[b"x" * 8] * 1000, b"\nok") == [None, b"ok"]


async def test_another_media_type_is_refused() -> None:
    with pytest.raises(UnsupportedMedia, match="not application/x-ndjson"):
        [line async for line in request_lines(request_with([b"{}"], "application/json"), line_max=10)]

"""Reading requests and writing responses of the toy engine, without a process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sokovan.engines.toy_connection import HEAD_MAX, MalformedRequest, ToyConnection, ToyRequest


class Written:
    """Keeps what a connection writes."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, content: bytes) -> None:
        self.content += content

    async def drain(self) -> None:
        pass


def connection(sent: bytes = b"") -> tuple[ToyConnection, Written]:
    reader, written = asyncio.StreamReader(limit=HEAD_MAX), Written()
    reader.feed_data(sent)
    reader.feed_eof()
    return ToyConnection(reader, cast("Any", written)), written


async def read(sent: bytes) -> ToyRequest | None:
    return await connection(sent)[0].read()


async def test_a_request_is_read_with_its_body_and_without_its_query() -> None:
    request = await read(b"POST /v1/x?y=1 HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    assert request == ToyRequest("POST", "/v1/x", {"content-length": "2", "connection": "close"}, b"{}")
    assert not request.keeps_alive


async def test_the_end_of_the_connection_is_no_request() -> None:
    assert await read(b"") is None


async def test_chunks_are_joined() -> None:
    head = b"POST /v1/x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    request = await read(head + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n")
    assert request is not None
    assert request.body == b"abc"


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"])
async def test_a_request_that_is_not_whole_is_refused(sent: bytes) -> None:
    with pytest.raises(MalformedRequest):
        await read(sent)


async def test_an_event_is_one_chunk_with_its_name() -> None:
    writer, written = connection()
    await writer.begin_events()
    await writer.event("done", {"a": 1})
    await writer.end_events()
    assert written.content.endswith(b'\r\n\r\n1c\r\nevent: done\ndata: {"a": 1}\n\n\r\n0\r\n\r\n')


async def test_a_client_that_has_closed_its_side_is_gone() -> None:
    gone, _ = connection()
    with pytest.raises(ConnectionResetError):
        gone.require_client()

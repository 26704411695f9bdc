"""A request as an endpoint gets it."""

from __future__ import annotations

import pytest

from sokovan.proxy.http.heads import read_request_head, read_response_head
from sokovan.proxy.request_message import RequestMessage
from tests.unit.proxy.routing.states import endpoint

OK = read_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", method=b"POST")


def message(head: bytes = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n") -> RequestMessage:
    return RequestMessage(read_request_head(head))


def test_a_body_that_is_whole_has_a_length() -> None:
    found = message(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n")
    found.add(b"abc")
    found.add(b"def")
    found.ended = True

    sent = found.bytes_for(endpoint(1), peer=b"")
    assert b"content-length: 6\r\n" in sent
    assert sent.endswith(b"\r\n\r\nabcdef")


def test_a_body_that_is_streamed_keeps_its_framing() -> None:
    declared, chunked = message(), message(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n")
    for found in (declared, chunked):
        found.streams_up = True
        found.add(b"abc")

    assert declared.bytes_for(endpoint(1), peer=b"").endswith(b"content-length: 6\r\n\r\nabc")
    assert chunked.bytes_for(endpoint(1), peer=b"").endswith(b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
    chunked.ended = True
    assert chunked.bytes_for(endpoint(1), peer=b"").endswith(b"3\r\nabc\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("head", "repeatable"),
    [
        (b"GET /x HTTP/1.1\r\nHost: a\r\n", True),
        (b"HEAD /x HTTP/1.1\r\nHost: a\r\n", True),
        (b"POST /x HTTP/1.1\r\nHost: a\r\n", False),
        (b"DELETE /x HTTP/1.1\r\nHost: a\r\n", False),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: 1\r\n", True),
    ],
)
def test_only_safe_requests_are_repeatable(head: bytes, repeatable: bool) -> None:
    found = message(head)
    assert found.repeatable is repeatable

    found.streams_up = True
    assert not found.repeatable


def test_an_answer_before_the_whole_request_ends_the_connection() -> None:
    found = message()
    assert not found.relay_for(OK).keep_alive

    found.ended = True
    assert found.relay_for(OK).keep_alive

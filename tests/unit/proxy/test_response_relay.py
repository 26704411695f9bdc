"""Responses keep their bytes, whatever framing each side has."""

from __future__ import annotations

import pytest

from sokovan.proxy.accounts.token_counts import BODY_MAX, TokenCount
from sokovan.proxy.http.heads import read_request_head, read_response_head
from sokovan.proxy.response_relay import ResponseRelay

NEW = read_request_head(b"POST /x HTTP/1.1\r\nHost: a\r\n")
OLD = read_request_head(b"POST /x HTTP/1.0\r\n")
LENGTH = read_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", method=b"POST")
CHUNKED = read_response_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", method=b"POST")
STREAM = read_response_head(
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n",
    method=b"POST",
)

BOUNDED_STREAM = read_response_head(
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 30\r\n", method=b"POST"
)


def relay(head: object, request: object = NEW, *, inference: bool = False, removes: bool = False) -> ResponseRelay:
    return ResponseRelay(head, request, inference=inference, removes_usage=removes)  # type: ignore[arg-type]  # heads of both kinds


def test_a_response_with_a_length_keeps_it() -> None:
    found = relay(LENGTH)

    assert b"content-length: 3\r\n" in found.head_bytes(NEW)
    assert found.part(b"abc", ended=True) == b"abc"
    assert found.keep_alive


def test_a_chunked_response_is_chunked_anew() -> None:
    found = relay(CHUNKED)

    assert found.part(b"abc", ended=False) == b"3\r\nabc\r\n"
    assert found.part(b"", ended=True) == b"0\r\n\r\n"


def test_an_old_client_gets_the_bytes_and_a_closed_connection() -> None:
    found = relay(CHUNKED, OLD)

    assert found.part(b"abc", ended=True) == b"abc"
    assert not found.keep_alive


def test_tokens_are_counted_or_estimated() -> None:
    counted, unknown = relay(LENGTH, inference=True), relay(LENGTH, inference=True)
    counted.part(b'{"usage":{"prompt_tokens":1,', ended=False)
    counted.part(b'"completion_tokens":2}}', ended=True)
    unknown.part(b"x" * 40, ended=True)

    assert counted.count(400) == TokenCount(1, 2)
    assert unknown.count(400) == TokenCount(100, 10, estimated=True)


def test_a_body_that_is_too_large_to_keep_is_estimated() -> None:
    found = relay(LENGTH, inference=True)
    found.part(b"x" * (BODY_MAX + 1), ended=False)
    found.part(b"x", ended=True)

    assert found.count(0).estimated


@pytest.mark.parametrize("request_head", [NEW, OLD])
def test_a_stream_that_breaks_off_gets_an_error_event(request_head: object) -> None:
    found = relay(STREAM, request_head)

    last = found.broken_off(b"data: {}\n\n")
    assert last is not None
    assert b"data: {}\n\n" in last
    assert relay(LENGTH).broken_off(b"data: {}\n\n") is None
    assert relay(BOUNDED_STREAM).broken_off(b"data: {}\n\n") is None, "an event would be bytes of its body"


def test_a_part_of_an_event_is_sent_when_the_stream_ends() -> None:
    found = relay(STREAM, inference=True)

    assert found.part(b"data: 1", ended=False) == b""
    assert found.part(b"", ended=True) == b"7\r\ndata: 1\r\n0\r\n\r\n"

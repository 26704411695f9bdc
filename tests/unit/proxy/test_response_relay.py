"""Responses keep their bytes, whatever framing each side has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.accounts.token_counts import BODY_MAX, TokenCount
from sokovan.proxy.http.chunks import ChunkDecoder
from sokovan.proxy.http.heads import RequestHead, ResponseHead, read_request_head, read_response_head
from sokovan.proxy.response_relay import ResponseRelay
from sokovan.wire.serving.route_table import EventUsage

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


# Pieces of streams: events with and without usage, of one line and several, and such that are cut anywhere.
PIECES = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n',
    b'data: {"choices":[{"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}\r\n\r\n',
    b'data: {"choices":[{"delta":{}}],"timings":{"prompt_n":7,"predicted_n":2}}\n\n',
    b"data: 1\ndata: 2\n\ndata: 3\n\n",
    b"data: [DONE]\n\n",
    b"data: cut",
    b" here\n",
    b"\n",
)


def content_of(chunks: bytes) -> bytes:
    return b"".join(ChunkDecoder().feed(chunks))


@given(
    st.lists(st.sampled_from(PIECES), max_size=8),
    st.booleans(),
    st.sampled_from(["", "usage", "timings"]),
    st.tuples(st.sampled_from([STREAM, CHUNKED]), st.sampled_from([NEW, OLD])),
)
def test_chunks_that_are_passed_on_as_they_came_say_and_count_the_same(
    pieces: list[bytes], inference: bool, event_usage: EventUsage, heads: tuple[ResponseHead, RequestHead]
) -> None:
    framed, parted = (
        ResponseRelay(*heads, inference=inference, removes_usage=True, event_usage=event_usage) for _ in range(2)
    )
    passed, sent, expected = 0, b"", b""
    for piece in pieces:
        whole = b"%x\r\n%b\r\n" % (len(piece), piece)
        start = ChunkDecoder().whole(whole)
        unchanged = framed.passes_on(whole, start)
        passed += unchanged
        sent += whole if unchanged else framed.part(piece, ended=False)
        expected += parted.part(piece, ended=False)
    sent, expected = sent + framed.part(b"", ended=True), expected + parted.part(b"", ended=True)

    if heads[1] is NEW:
        sent, expected = content_of(sent), content_of(expected)
    assert sent == expected
    assert framed.count(400) == parted.count(400)
    assert not (passed and heads[1] is OLD), "its client reads no chunks"


def test_most_events_of_a_stream_are_passed_on_as_they_came() -> None:
    found = relay(STREAM, inference=True, removes=True)
    event, last = PIECES[0], PIECES[2]
    start = 4

    assert found.passes_on(b"%x\r\n%b\r\n" % (len(event), event), start)
    assert not found.passes_on(b"%x\r\n%b\r\n" % (len(last), last), start)
    assert found.part(last, ended=True) == b"0\r\n\r\n"
    assert found.count(0) == TokenCount(7, 3)

"""Heads are parsed strictly: what two parsers could read differently is refused."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.proxy.http import heads
from sokovan.proxy.http.heads import (
    HEADS_KEPT_MAX,
    LINE_KEPT_BYTES_MAX,
    LINES_KEPT_MAX,
    BadHead,
    read_request_head,
    read_response_head,
)

GOOD = b"POST /v1/x HTTP/1.1\r\nHost: a\r\n"
# Requests that hide another one in themselves, as they are known from attacks on proxies.
SMUGGLING = [
    GOOD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    GOOD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    GOOD + b"Content-Length: 5\r\nContent-Length: 6\r\n",
    GOOD + b"Content-Length: 5\r\nContent-Length: 5\r\n",
    GOOD + b"Content-Length: 5, 5\r\n",
    GOOD + b"Content-Length: +5\r\n",
    GOOD + b"Content-Length: -5\r\n",
    GOOD + b"Content-Length: 0x5\r\n",
    GOOD + b"Content-Length: 5 5\r\n",
    GOOD + b"Content-Length: \r\n",
    GOOD + b"Content-Length: " + b"9" * 30 + b"\r\n",
    GOOD + b"Content-Length : 5\r\n",
    GOOD + b"Transfer-Encoding : chunked\r\n",
    GOOD + b"Transfer-Encoding: xchunked\r\n",
    GOOD + b"Transfer-Encoding: identity\r\n",
    GOOD + b"Transfer-Encoding: chunked, identity\r\n",
    GOOD + b"Transfer-Encoding: gzip, chunked\r\n",
    GOOD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    GOOD + b"Transfer-Encoding:\x0bchunked\r\n",
    GOOD + b"Transfer-Encoding: \x00chunked\r\n",
    GOOD + b"X: y\r\n Transfer-Encoding: chunked\r\n",
    GOOD + b"X: y\n Content-Length: 5\r\n",
    GOOD + b"X: y\nContent-Length: 5\r\n",
    GOOD + b"X: y\rContent-Length: 5\r\n",
    GOOD + b": empty\r\n",
    GOOD + b"no colon\r\n",
    GOOD + b"Na me: x\r\n",
    GOOD + b"N\xc3\xa4me: x\r\n",
    GOOD + b"Host: b\r\n",
    GOOD + b"X: \x00\r\n",
    GOOD + b"X: \x7f\r\n",
    GOOD + b"Expect: 200-ok\r\n",
    b"POST /v1/x HTTP/1.1\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: a b\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: a/b\r\n",
    b"POST /v1/x HTTP/1.1\r\nHost: \r\n",
    b"POST  /v1/x HTTP/1.1\r\nHost: a\r\n",
    b"POST /v1/x  HTTP/1.1\r\nHost: a\r\n",
    b"POST\t/v1/x HTTP/1.1\r\nHost: a\r\n",
    b"POST /v1/x HTTP/1.1 \r\nHost: a\r\n",
    b"POST /v1/x\r\nHost: a\r\n",
    b"POST /v1/x HTTP/2.0\r\nHost: a\r\n",
    b"POST /v1/x HTTP/1.2\r\nHost: a\r\n",
    b"POST /v1/x http/1.1\r\nHost: a\r\n",
    b"post /v1/x HTTP/1.1\r\nHost: a\r\n",
    b"POST http://other/v1/x HTTP/1.1\r\nHost: a\r\n",
    b"CONNECT other:443 HTTP/1.1\r\nHost: a\r\n",
    b"POST v1/x HTTP/1.1\r\nHost: a\r\n",
    b"POST /v1/x#y HTTP/1.1\r\nHost: a\r\n",
    b"POST /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n",
    b"POST /a\x00b HTTP/1.1\r\nHost: a\r\n",
    b"\r\nPOST /v1/x HTTP/1.1\r\nHost: a\r\n",
    b"POST /v1/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    b"GET /d/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n",
]


@pytest.mark.parametrize("head", SMUGGLING)
def test_a_request_that_can_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(BadHead):
        read_request_head(head)


def test_a_head_has_names_in_lower_case_and_values_without_margins() -> None:
    head = read_request_head(b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a:80\r\nX-Y: \t z w \r\nContent-Length: 12\r\n")

    assert (head.method, head.target, head.length) == (b"POST", b"/v1/x?y=1", 12)
    assert head.fields == [
        (b"host", b"a:80", b"host: a:80\r\n"),
        (b"x-y", b"z w", b"x-y: z w\r\n"),
        (b"content-length", b"12", b"content-length: 12\r\n"),
    ]
    assert head.keep_alive
    assert head.field(b"x-y") == b"z w"
    assert not head.field(b"absent")


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, X-Foo\r\n", True),
        (b"GET / HTTP/1.0\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", True),
    ],
)
def test_a_connection_goes_on_as_its_client_says(head: bytes, keep_alive: bool) -> None:
    assert read_request_head(head).keep_alive is keep_alive


def test_fields_that_concern_the_connection_are_named() -> None:
    head = read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Foo, close\r\nX-Foo: 1\r\n")

    assert head.dropped == {b"x-foo", b"close"}


def test_lines_that_are_kept_are_bounded_and_never_credentials() -> None:
    long = b"x" * LINE_KEPT_BYTES_MAX
    for number in range(LINES_KEPT_MAX + 5):
        read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\nX: %d\r\nAuthorization: Bearer %d\r\n" % (number, number))
    read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: b\r\nCookie: c\r\nLong: %b\r\n" % long)
    kept = heads._lines_kept
    assert 0 < len(kept) <= LINES_KEPT_MAX
    assert {name for name, _, _ in kept.values()} == {b"host", b"x"}


def test_too_many_fields_are_refused_with_431() -> None:
    with pytest.raises(BadHead) as refused:
        read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100)

    assert refused.value.status == 431


@pytest.mark.parametrize(
    ("head", "method", "length", "chunked", "until_close"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", b"GET", 3, False, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", b"GET", None, True, False),
        (b"HTTP/1.1 200 OK\r\n", b"GET", None, False, True),
        (b"HTTP/1.1 200\r\n", b"GET", None, False, True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", b"HEAD", 0, False, False),
        (b"HTTP/1.1 204 No Content\r\n", b"GET", 0, False, False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n", b"GET", 0, False, False),
    ],
)
def test_the_end_of_a_response_is_known(
    *, head: bytes, method: bytes, length: int | None, chunked: bool, until_close: bool
) -> None:
    found = read_response_head(head, method=method)

    assert (found.length, found.chunked, found.until_close) == (length, chunked, until_close)
    assert found.keep_alive is not until_close


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n",
        b"HTTP/1.1 999 OK\r\n",
        b"HTTP/2 200 OK\r\n",
        b"200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\nZ: w\r\n",
    ],
)
def test_a_response_that_can_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(BadHead):
        read_response_head(head, method=b"GET")


class _Reference:
    """The callbacks of llhttp, a parser in wide use."""

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.whole = self.keep_alive = False
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.whole, self.keep_alive = True, self.parser.should_keep_alive()


LINES = st.sampled_from([
    b"Content-Length: 3", b"Content-Length: 0", b"Transfer-Encoding: chunked", b"X-A: b", b"X-A:\tb ", b" folded", b"X",
    b"X-A: b\nX-B: c", b"Connection: close", b"X-\xff: 1", b"X-C: \xff", b"Expect: 100-continue", b"X : y", b"A: ",
])  # fmt: skip


@given(st.lists(LINES, max_size=6), st.sampled_from([b"GET", b"POST", b"PUT"]), st.sampled_from([b"/", b"/a?b", b"/ "]))
def test_what_is_accepted_means_the_same_to_another_parser(lines: list[bytes], method: bytes, target: bytes) -> None:
    block = b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), b"Host: h", *lines]) + b"\r\n"
    try:
        head = read_request_head(block)
    except BadHead:
        return
    other = _Reference()
    other.parser.feed_data(block + b"\r\n")

    assert other.whole
    assert (other.parser.get_method(), other.url, other.fields) == (
        head.method,
        head.target,
        [one[:2] for one in head.fields],
    )
    assert other.keep_alive is head.keep_alive


@given(st.binary(max_size=200))
def test_bytes_at_random_are_refused_with_one_error(content: bytes) -> None:
    for read in (read_request_head, lambda block: read_response_head(block, method=b"GET")):
        with pytest.raises(BadHead):
            read(content)


def test_heads_of_responses_that_are_kept_are_bounded_and_never_credentials() -> None:
    for number in range(HEADS_KEPT_MAX + 5):
        read_response_head(b"HTTP/1.1 200 OK\r\nX-Number: %d\r\n" % number, method=b"GET")
    secret = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n"
    read_response_head(secret, method=b"GET")

    assert 0 < len(heads._heads_kept) <= HEADS_KEPT_MAX
    assert secret not in heads._heads_kept


def test_the_same_head_has_no_body_in_a_response_to_head() -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"
    for _ in range(2):
        assert read_response_head(block, method=b"GET").length == 7
        assert read_response_head(block, method=b"HEAD").length == 0

"""Heads are written anew: nothing of one connection, no key, reaches the other."""

from __future__ import annotations

from sokovan.proxy.http.head_writer import chunk, client_head, own_response, status_line, upgrade_head, upstream_head
from sokovan.proxy.http.heads import read_request_head, read_response_head

REQUEST = read_request_head(
    b"POST /v1/x HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ske_1\r\nX-Api-Key: ske_1\r\nTE: trailers\r\n"
    b"Connection: close, X-Secret\r\nX-Secret: 1\r\nX-Forwarded-For: 9.9.9.9\r\nAccept: */*\r\nContent-Length: 3\r\n"
    b"Accept-Encoding: gzip\r\n"
)


def test_an_endpoint_gets_its_own_key_and_not_the_callers() -> None:
    head = upstream_head(REQUEST, target=b"/x", host=b"127.0.0.1:9", secret=b"own", length=3, client=b"10.0.0.1")

    assert head == (
        b"POST /x HTTP/1.1\r\nhost: 127.0.0.1:9\r\naccept: */*\r\nauthorization: Bearer own\r\n"
        b"x-forwarded-for: 10.0.0.1\r\ncontent-length: 3\r\n\r\n"
    )


def test_a_body_without_a_length_is_sent_in_chunks() -> None:
    head = upstream_head(REQUEST, target=b"/x", host=b"h", secret=b"", length=None, client=b"")

    assert b"transfer-encoding: chunked\r\n" in head
    assert b"content-length" not in head
    assert chunk(b"abc") == b"3\r\nabc\r\n"
    assert chunk(b"") == b"", "an empty chunk would end the body"


def test_a_get_without_a_body_has_no_length() -> None:
    request = read_request_head(b"GET / HTTP/1.1\r\nHost: a\r\n")

    assert b"length" not in upstream_head(request, target=b"/", host=b"h", secret=b"", length=0, client=b"")


def test_a_websocket_handshake_is_passed_on() -> None:
    request = read_request_head(
        b"GET /d/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"
    )
    head = upstream_head(request, target=b"/", host=b"h", secret=b"", length=0, client=b"")
    response = read_response_head(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n",
        method=b"GET",
    )

    assert b"connection: Upgrade\r\nupgrade: websocket\r\n" in head
    assert b"sec-websocket-key: k\r\n" in head
    assert upgrade_head(response) == (
        b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: a\r\n"
        b"connection: Upgrade\r\nupgrade: websocket\r\n\r\n"
    )


def test_a_client_gets_the_framing_of_its_own_connection() -> None:
    response = read_response_head(
        b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-A: b\r\n", method=b"GET"
    )

    assert client_head(response, minor=1, length=None, keep_alive=True) == (
        b"HTTP/1.1 200 OK\r\nx-a: b\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    assert client_head(response, minor=0, length=None, keep_alive=False) == (
        b"HTTP/1.1 200 OK\r\nx-a: b\r\nconnection: close\r\n\r\n"
    )
    assert client_head(response, minor=0, length=3, keep_alive=True).endswith(
        b"content-length: 3\r\nconnection: keep-alive\r\n\r\n"
    )


def test_a_response_of_the_proxy_is_whole() -> None:
    assert own_response(200, b"{}", keep_alive=True) == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert status_line(299) == b"HTTP/1.1 299 \r\n"

"""HTTP/1.1 over one socket, compared with `http.client` of the standard library."""

from __future__ import annotations

import socket
import threading
from http.client import HTTPException, HTTPResponse

import pytest

from sokovan.sdk.http.exchanges import (
    HEADERS_MAX,
    LINE_MAX,
    HttpReply,
    HttpSocket,
    Incoming,
    MalformedResponse,
    ServerAddress,
)

OK = b"HTTP/1.1 200 OK\r\n"


def connection_with(sent: bytes) -> socket.socket:
    """Our end of a connection on which a server has sent these bytes and then nothing."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)

    def send() -> None:
        with theirs:
            theirs.sendall(sent)

    threading.Thread(target=send, daemon=True).start()
    return ours


def ours(sent: bytes) -> tuple[int, str | None, bytes, bool]:
    with connection_with(sent) as connection:
        reply = HttpReply(Incoming(connection))
        return reply.status_code, reply.headers.get("X-Test"), reply.read(), reply.may_continue


def theirs(sent: bytes) -> tuple[int, str | None, bytes, bool]:
    """What the standard library reads."""
    with connection_with(sent) as connection:
        response = HTTPResponse(connection, method="GET")
        response.begin()
        status, header, content = response.status, response.headers.get("X-Test"), response.read()
        return status, header, content, response.isclosed() and not response.will_close


@pytest.mark.parametrize(
    "sent",
    [
        OK + b"Content-Length: 2\r\n\r\nhi",
        OK + b"content-length:2\r\nX-Test: \t a: b\r\n\r\nhi",
        OK + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 404\r\nContent-Length: 1\r\n\r\n?",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi",
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
        OK + b"\r\nuntil the end",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\nA\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n",
        OK + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000,
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"3\r\nabc\r\n" * 50_000 + b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    ],
    ids=range(16),
)
def test_a_response_is_read_as_the_standard_library_reads_it(sent: bytes) -> None:
    assert ours(sent) == theirs(sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        OK + b"Content-Length: 9\r\n\r\nhi",
        OK + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhi",
        OK + b"A: " + b"x" * (3 * LINE_MAX) + b"\r\n\r\n",
        OK + b"A: b\r\n" * (HEADERS_MAX + 1) + b"\r\n",
    ],
    ids=range(9),
)
def test_what_the_standard_library_refuses_is_refused(sent: bytes) -> None:
    with pytest.raises((HTTPException, ValueError)):
        theirs(sent)
    with pytest.raises(MalformedResponse):
        ours(sent)


@pytest.mark.parametrize(
    "sent",
    [
        OK,
        OK + b"no header\r\n\r\n",
        OK + b"A b: c\r\n\r\n",
        OK + b"A: b\r\n c\r\n\r\n",
        OK + b"A: b\0c\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        OK + b"Content-Length: +2\r\n\r\nhi",
        OK + b"Transfer-Encoding: gzip\r\n\r\nhi",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n",
    ],
    ids=range(10),
)
def test_what_two_readers_might_understand_differently_is_refused(sent: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ours(sent)


def test_a_connection_on_which_more_came_is_not_used_again() -> None:
    assert ours(OK + b"Content-Length: 2\r\n\r\nhi" + OK)[2:] == (b"hi", False)


def test_equal_headers_are_joined() -> None:
    assert ours(OK + b"X-Test: a\r\nx-test: b\r\nContent-Length: 0\r\n\r\n")[1] == "a, b"


def test_content_is_given_as_it_arrives() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        parts = HttpReply(Incoming(here)).parts()
        for text in (b"a", b"bc"):
            there.sendall(b"%x\r\n%s\r\n" % (len(text), text))
            assert next(parts) == text
        there.sendall(b"0\r\n\r\n")
        assert list(parts) == []


@pytest.mark.parametrize(
    ("address", "named"),
    [
        (ServerAddress("127.0.0.1", 80), "127.0.0.1"),
        (ServerAddress("::1", 7646), "[::1]:7646"),
        (ServerAddress("bücher.example", 7646), "xn--bcher-kva.example:7646"),
        (ServerAddress("proxy", 3128, None, ("lab", 80)), "lab"),
    ],
)
def test_the_server_is_named_in_each_request(address: ServerAddress, named: str) -> None:
    assert address.named == named


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/a\n", ""])
def test_a_target_cannot_add_to_a_request(target: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = HttpSocket(ServerAddress(*server.getsockname()), timeout_s=30, proxy_headers={})
        try:
            if target:
                with pytest.raises(MalformedResponse, match="characters"):
                    connection.send("GET", target, {}, None)
            with pytest.raises(MalformedResponse, match="characters"):
                connection.send("GET", "/", {"A": "b\r\nC: d"}, None)
        finally:
            connection.close()

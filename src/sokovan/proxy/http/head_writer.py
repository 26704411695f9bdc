"""Writes heads anew: nothing of one connection is passed on to another."""

from __future__ import annotations

from sokovan.proxy.http.heads import RequestHead, ResponseHead

# Of one connection, never passed on.
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"content-length",
})  # fmt: skip
# Written anew, or the caller's own: keys are for the proxy, and a compressed response hides its usage.
_NOT_UPSTREAM = _HOP_BY_HOP | {
    b"host", b"authorization", b"x-api-key", b"accept-encoding", b"expect", b"forwarded", b"x-forwarded-for",
    b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
}  # fmt: skip
CHUNKED_END = b"0\r\n\r\n"

_REASONS = {
    100: b"Continue", 101: b"Switching Protocols", 200: b"OK", 201: b"Created", 202: b"Accepted", 204: b"No Content",
    206: b"Partial Content", 301: b"Moved Permanently", 302: b"Found", 303: b"See Other", 304: b"Not Modified",
    307: b"Temporary Redirect", 308: b"Permanent Redirect", 400: b"Bad Request", 401: b"Unauthorized",
    403: b"Forbidden", 404: b"Not Found", 405: b"Method Not Allowed", 408: b"Request Timeout", 409: b"Conflict",
    413: b"Content Too Large", 415: b"Unsupported Media Type", 417: b"Expectation Failed",
    422: b"Unprocessable Content", 429: b"Too Many Requests", 431: b"Request Header Fields Too Large",
    500: b"Internal Server Error", 501: b"Not Implemented", 502: b"Bad Gateway", 503: b"Service Unavailable",
    504: b"Gateway Timeout",
}  # fmt: skip
_STATUS_LINES = {code: b"HTTP/1.1 %d %b\r\n" % (code, phrase) for code, phrase in _REASONS.items()}


def upstream_head(
    head: RequestHead, *, target: bytes, host: bytes, secret: bytes, length: int | None, client: bytes
) -> bytes:
    """The head of the request to an endpoint; the body is chunked if `length` is None."""
    drop = _NOT_UPSTREAM | head.dropped if head.dropped else _NOT_UPSTREAM
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (head.method, target, host)]
    lines += [line for name, _, line in head.fields if name not in drop]
    if secret:
        lines.append(b"authorization: Bearer %b\r\n" % secret)
    if client:
        lines.append(b"x-forwarded-for: %b\r\n" % client)
    if head.websocket:
        lines.append(b"connection: Upgrade\r\nupgrade: websocket\r\n")
    elif length is None:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length or head.method not in _BODILESS_METHODS:
        lines.append(b"content-length: %d\r\n" % length)
    lines.append(b"\r\n")
    return b"".join(lines)


_BODILESS_METHODS = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS"})


def client_head(response: ResponseHead, *, minor: int, length: int | None, keep_alive: bool) -> bytes:
    """The head of the response to a client.

    Without a length the body is chunked, or ends with the connection for HTTP/1.0.
    """
    drop = _HOP_BY_HOP | response.dropped if response.dropped else _HOP_BY_HOP
    lines = [status_line(response.status)]
    lines += [line for name, _, line in response.fields if name not in drop]
    if length is not None:
        if response.status not in {204, 304}:
            lines.append(b"content-length: %d\r\n" % length)
    elif minor:
        lines.append(b"transfer-encoding: chunked\r\n")
    lines.append(_connection(minor=minor, keep_alive=keep_alive))
    return b"".join(lines)


def upgrade_head(response: ResponseHead) -> bytes:
    """The head of 101, after which bytes are spliced."""
    drop = _HOP_BY_HOP | response.dropped
    lines = [line for name, _, line in response.fields if name not in drop]
    return b"".join([status_line(101), *lines, b"connection: Upgrade\r\nupgrade: websocket\r\n\r\n"])


def own_response(
    status: int, body: bytes, *, keep_alive: bool, content_type: bytes = b"application/json", fields: bytes = b""
) -> bytes:
    """A whole response of the proxy itself; `fields` are lines with their ends."""
    head = b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b" % (status_line(status), content_type, len(body), fields)
    return head + _connection(minor=1, keep_alive=keep_alive) + body


def status_line(status: int) -> bytes:
    """The first line of a response."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


def chunk(data: bytes) -> bytes:
    """One chunk of a body; empty for no data, since an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _connection(*, minor: int, keep_alive: bool) -> bytes:
    if not keep_alive:
        return b"connection: close\r\n\r\n"
    return b"\r\n" if minor else b"connection: keep-alive\r\n\r\n"

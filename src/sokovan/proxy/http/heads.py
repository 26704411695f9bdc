"""Strict parsing of request and response heads.

Two parsers that disagree about where a message ends let a request hide in another. One
grammar is accepted here, and every deviation is refused rather than repaired: a bare line
feed, a folded line, a space before a colon, a second length, a length beside an encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

HEAD_BYTES_MAX = 32 << 10
FIELDS_MAX = 100
LENGTH_DIGITS_MAX = 15
END_OF_HEAD = b"\r\n\r\n"

Fields: TypeAlias = list[tuple[bytes, bytes]]

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[!\"$-~]*+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([\t\x20-\x7e\x80-\xff]*+))?")
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*+\r\n)*+")
_HOST = re.compile(rb"[0-9A-Za-z.\-_:\[\]]{1,255}")
_BODILESS = frozenset({204, 304})


class BadHead(Exception):
    """A head, or the framing of a body, that is not accepted; `status` is that of the answer."""

    def __init__(self, text: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(text)


@dataclass(slots=True)
class RequestHead:
    """A request's head. Names of fields are in lower case.

    `length` is that of the body, 0 without one, None if it is `chunked`. `dropped` are fields
    that concern this connection only, by its Connection field.
    """

    method: bytes
    target: bytes
    fields: Fields
    length: int | None
    chunked: bool
    keep_alive: bool
    expects_continue: bool
    websocket: bool
    minor: int
    dropped: frozenset[bytes]

    def field(self, name: bytes) -> bytes:
        """The value of a field, its first; empty if it is absent."""
        return next((value for found, value in self.fields if found == name), b"")


@dataclass(slots=True)
class ResponseHead:
    """A response's head.

    `length` is that of the body; None with `chunked`, or if the body lasts until the
    connection ends (`until_close`).
    """

    status: int
    reason: bytes
    fields: Fields
    length: int | None
    chunked: bool
    keep_alive: bool
    until_close: bool
    dropped: frozenset[bytes]

    def field(self, name: bytes) -> bytes:
        """The value of a field, its first; empty if it is absent."""
        return next((value for found, value in self.fields if found == name), b"")


def read_request_head(block: bytes) -> RequestHead:
    """The head in `block`, which ends with the line end of its last line. Raises BadHead."""
    line, fields, framing = _read(block)
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise BadHead("the request line is not METHOD /TARGET HTTP/1.1")
    method, target, minor = start.groups()
    later = minor == b"1"
    hosts = framing.get(b"host", ())
    if len(hosts) != 1 if later else len(hosts) > 1:
        raise BadHead("a request has exactly one Host field")
    if hosts and _HOST.fullmatch(hosts[0]) is None:
        raise BadHead("the Host field is not a host")
    length, chunked = _body_framing(framing, later=later)
    options = _connection_options(framing)
    expect = framing.get(b"expect", ())
    if expect and [value.lower() for value in expect] != [b"100-continue"]:
        raise BadHead("only 100-continue may be expected", status=417)
    upgrades = framing.get(b"upgrade", ())
    websocket = b"upgrade" in options and [value.lower() for value in upgrades] == [b"websocket"] and method == b"GET"
    if websocket and (chunked or length):
        raise BadHead("a WebSocket handshake has no body")
    return RequestHead(
        method=method,
        target=target,
        fields=fields,
        length=None if chunked else length or 0,
        chunked=chunked,
        keep_alive=b"close" not in options and (later or b"keep-alive" in options),
        expects_continue=bool(expect) and later,
        websocket=websocket,
        minor=int(minor),
        dropped=options,
    )


def read_response_head(block: bytes, *, method: bytes) -> ResponseHead:
    """The head of the response to a request of `method`. Raises BadHead."""
    line, fields, framing = _read(block)
    start = _STATUS_LINE.fullmatch(line)
    if start is None:
        raise BadHead("the status line is not HTTP/1.1 CODE REASON", status=502)
    minor, code, reason = start.groups()
    status, later = int(code), minor == b"1"
    length, chunked = _body_framing(framing, later=later)
    if method == b"HEAD" or status in _BODILESS or status < 200:
        length, chunked = 0, False
    options = _connection_options(framing)
    until_close = length is None and not chunked
    return ResponseHead(
        status=status,
        reason=reason or b"",
        fields=fields,
        length=length,
        chunked=chunked,
        keep_alive=not until_close and b"close" not in options and (later or b"keep-alive" in options),
        until_close=until_close,
        dropped=options,
    )


def _read(block: bytes) -> tuple[bytes, Fields, dict[bytes, list[bytes]]]:
    """First line, fields, and the values of the fields that this module interprets."""
    line, _, rest = block.partition(b"\r\n")
    if _FIELDS.fullmatch(rest) is None:
        raise BadHead("a line of the head is not NAME: VALUE")
    fields: Fields = []
    framing: dict[bytes, list[bytes]] = {}
    for one in rest.split(b"\r\n")[:-1]:
        name, _, value = one.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        fields.append((name, value))
        if name in _INTERPRETED:
            framing.setdefault(name, []).append(value)
    if len(fields) > FIELDS_MAX:
        raise BadHead(f"the head has {len(fields)} fields, the limit is {FIELDS_MAX}", status=431)
    return line, fields, framing


_INTERPRETED = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"expect", b"upgrade"})


def _body_framing(framing: dict[bytes, list[bytes]], *, later: bool) -> tuple[int | None, bool]:
    """Length of the body and whether it is chunked; (None, False) if the head says neither."""
    lengths, encodings = framing.get(b"content-length", ()), framing.get(b"transfer-encoding", ())
    if encodings:
        if lengths:
            raise BadHead("a message has Content-Length or Transfer-Encoding, not both")
        if not later:
            raise BadHead("HTTP/1.0 has no Transfer-Encoding")
        if len(encodings) > 1 or encodings[0].lower() != b"chunked":
            raise BadHead("the only supported Transfer-Encoding is chunked", status=501)
        return None, True
    if not lengths:
        return None, False
    if len(lengths) > 1:
        raise BadHead("a message has one Content-Length")
    digits = lengths[0]
    # isdigit of bytes is ASCII only; a sign, a space or a list is refused.
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX:
        raise BadHead("Content-Length is not a number")
    return int(digits), False


def _connection_options(framing: dict[bytes, list[bytes]]) -> frozenset[bytes]:
    """The options of the Connection fields; the names of fields among them are dropped."""
    values = framing.get(b"connection", ())
    return frozenset(_list_items(values)) if values else _NONE


def _list_items(values: list[bytes] | tuple[bytes, ...]) -> Iterator[bytes]:
    for value in values:
        for item in value.split(b","):
            name = item.strip(b" \t").lower()
            if name:
                yield name


_NONE: frozenset[bytes] = frozenset()

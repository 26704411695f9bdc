"""Strict parsing of request and response heads.

Two parsers that disagree about where a message ends let a request hide in another. One
grammar is accepted here, and every deviation is refused rather than repaired: a bare line
feed, a folded line, a space before a colon, a second length, a length beside an encoding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

HEAD_BYTES_MAX = 32 << 10
FIELDS_MAX = 100
LENGTH_DIGITS_MAX = 15
END_OF_HEAD = b"\r\n\r\n"

# Name in lower case, value, and the line as it is written.
HeadField: TypeAlias = tuple[bytes, bytes, bytes]
Fields: TypeAlias = list[HeadField]

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[!\"$-~]*+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([\t\x20-\x7e\x80-\xff]*+))?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):([\t\x20-\x7e\x80-\xff]*+)")
_HOST = re.compile(rb"[0-9A-Za-z.\-_:\[\]]{1,255}")
_BODILESS = frozenset({204, 304})
# A head has at most one of each.
_SINGLE = (b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"authorization", b"x-api-key")
_NONE: frozenset[bytes] = frozenset()
_EMPTY = frozenset({b""})
_COMMON_OPTIONS = {value: frozenset({value.lower()}) for value in (b"keep-alive", b"Keep-Alive", b"close")}
# Most lines of a head are those of the head before: each is parsed once. Long ones are not kept, nor credentials.
LINES_KEPT_MAX, LINE_KEPT_BYTES_MAX = 4_096, 512
_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"proxy-authorization", b"cookie", b"set-cookie"})
_lines_kept: dict[bytes, HeadField] = {}
# Whole heads of responses, too.
HEADS_KEPT_MAX = 1_024


class BadHead(Exception):
    """A head or framing that is not accepted; `status` is that of the answer."""

    def __init__(self, text: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(text)


@dataclass(slots=True)
class RequestHead:
    """A request's head. Names of fields are in lower case.

    `known` has the last value of each field. `length` is that of the body, 0 without one,
    None if it is `chunked`. `dropped` are the options of the Connection field, among them
    fields that concern this connection only.
    """

    method: bytes
    target: bytes
    fields: Fields
    known: dict[bytes, bytes]
    length: int | None
    chunked: bool
    keep_alive: bool
    expects_continue: bool
    websocket: bool
    minor: int
    dropped: frozenset[bytes]

    def field(self, name: bytes) -> bytes:
        """The value of a field; empty if it is absent."""
        return self.known.get(name, b"")


@dataclass(slots=True)
class ResponseHead:
    """A response's head.

    `length` is that of the body; None with `chunked`, or if the body lasts until the
    connection ends (`until_close`). `streams`: the body is a stream of events.
    """

    status: int
    reason: bytes
    fields: Fields
    known: dict[bytes, bytes]
    length: int | None
    chunked: bool
    keep_alive: bool
    until_close: bool
    dropped: frozenset[bytes]
    streams: bool = False

    def field(self, name: bytes) -> bytes:
        """The value of a field; empty if it is absent."""
        return self.known.get(name, b"")


_heads_kept: dict[bytes, ResponseHead] = {}


def read_request_head(block: bytes) -> RequestHead:
    """The head in `block`, the end of its last line included. Raises BadHead."""
    line, fields, known = _read(block)
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise BadHead("the request line is not METHOD /TARGET HTTP/1.1")
    method, target, minor = start.groups()
    later = minor == b"1"
    host = known.get(b"host")
    if host is None:
        if later:
            raise BadHead("a request has a Host field")
    elif _HOST.fullmatch(host) is None:
        raise BadHead("the Host field is not a host")
    length, chunked = _body_framing(known, later=later)
    options = _connection_options(known)
    expect = known.get(b"expect")
    if expect is not None and expect.lower() != b"100-continue":
        raise BadHead("only 100-continue may be expected", status=417)
    websocket = method == b"GET" and b"upgrade" in options and known.get(b"upgrade", b"").lower() == b"websocket"
    if websocket and (chunked or length):
        raise BadHead("a WebSocket handshake has no body")
    return RequestHead(
        method,
        target,
        fields,
        known,
        length=None if chunked else length or 0,
        chunked=chunked,
        keep_alive=b"close" not in options and (later or b"keep-alive" in options),
        expects_continue=later and expect is not None,
        websocket=websocket,
        minor=1 if later else 0,
        dropped=options,
    )


def read_response_head(block: bytes, *, method: bytes) -> ResponseHead:
    """The head of the response to a request of `method`. Raises BadHead.

    Many responses of an engine within a second have the same head: it is parsed once.
    """
    kept = _heads_kept.get(block)
    if kept is not None and method != b"HEAD":
        return kept
    head = _response_head(block, method)
    if method != b"HEAD" and len(block) <= LINE_KEPT_BYTES_MAX and _CREDENTIALS.isdisjoint(head.known):
        if len(_heads_kept) >= HEADS_KEPT_MAX:
            _heads_kept.clear()
        _heads_kept[block] = head
    return head


def _response_head(block: bytes, method: bytes) -> ResponseHead:
    line, fields, known = _read(block)
    start = _STATUS_LINE.fullmatch(line)
    if start is None:
        raise BadHead("the status line is not HTTP/1.1 CODE REASON", status=502)
    minor, code, reason = start.groups()
    status, later = int(code), minor == b"1"
    length, chunked = _body_framing(known, later=later)
    if method == b"HEAD" or status in _BODILESS or status < 200:
        length, chunked = 0, False
    options = _connection_options(known)
    until_close = length is None and not chunked
    return ResponseHead(
        status,
        reason or b"",
        fields,
        known,
        length=length,
        chunked=chunked,
        keep_alive=not until_close and b"close" not in options and (later or b"keep-alive" in options),
        until_close=until_close,
        dropped=options,
        streams=known.get(b"content-type", b"").lower().startswith(b"text/event-stream"),
    )


def _read(block: bytes) -> tuple[bytes, Fields, dict[bytes, bytes]]:
    """First line, all fields, and the fields by name."""
    line, *lines = block.split(b"\r\n")
    if not lines or lines.pop():
        raise BadHead("the head has no end")
    if len(lines) > FIELDS_MAX:
        raise BadHead(f"the head has {len(lines)} fields, the limit is {FIELDS_MAX}", status=431)
    kept = _lines_kept.get
    fields = [kept(one) or _field(one) for one in lines]
    known = {name: value for name, value, _ in fields}
    if len(known) < len(fields):
        _join_repeated(fields, known)
    return line, fields, known


def _field(line: bytes) -> HeadField:
    """The field in a line, without its end. Raises BadHead."""
    match = _FIELD.fullmatch(line)
    if match is None:
        raise BadHead("a line of the head is not NAME: VALUE")
    name, value = match[1].lower(), match[2].strip(b" \t")
    field = name, value, b"%b: %b\r\n" % (name, value)
    if len(line) <= LINE_KEPT_BYTES_MAX and name not in _CREDENTIALS:
        if len(_lines_kept) >= LINES_KEPT_MAX:
            _lines_kept.clear()
        _lines_kept[line] = field
    return field


def _join_repeated(fields: Fields, known: dict[bytes, bytes]) -> None:
    """Refuse fields of which a head has one, and join the Connection fields."""
    names = [name for name, _, _ in fields]
    for name in _SINGLE:
        if name in known and names.count(name) > 1:
            raise BadHead(f"a message has one {name.decode()} field")
    if b"connection" in known:
        known[b"connection"] = b",".join(value for name, value, _ in fields if name == b"connection")


def _body_framing(known: dict[bytes, bytes], *, later: bool) -> tuple[int | None, bool]:
    """Length of the body and whether it is chunked; (None, False) if the head says neither."""
    digits, encoding = known.get(b"content-length"), known.get(b"transfer-encoding")
    if encoding is not None:
        if digits is not None:
            raise BadHead("a message has Content-Length or Transfer-Encoding, not both")
        if not later:
            raise BadHead("HTTP/1.0 has no Transfer-Encoding")
        if encoding.lower() != b"chunked":
            raise BadHead("the only supported Transfer-Encoding is chunked", status=501)
        return None, True
    if digits is None:
        return None, False
    # isdigit of bytes is ASCII only; a sign, a space or a list is refused.
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX:
        raise BadHead("Content-Length is not a number")
    return int(digits), False


def _connection_options(known: dict[bytes, bytes]) -> frozenset[bytes]:
    """The options of the Connection field; names of fields among them are not passed on."""
    value = known.get(b"connection")
    if value is None:
        return _NONE
    common = _COMMON_OPTIONS.get(value)
    if common is not None:
        return common
    return frozenset(item.strip(b" \t").lower() for item in value.split(b",")) - _EMPTY

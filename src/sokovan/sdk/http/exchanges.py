"""HTTP/1.1 over one socket: a request, and its response as it arrives.

The command line loads this at every start: `http.client` of the standard library would load
the parsers of mail and TLS as well, and is the reference in the tests.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ssl import SSLContext

# Bounds of what a server may send before the content.
LINE_MAX = 64 << 10
HEADERS_MAX = 200
_PIECE = 64 << 10
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\r\n]*)?[ \t]*")
# Requests that have a body even if it is empty.
_WITH_BODY = frozenset({"PATCH", "POST", "PUT"})


class MalformedResponse(Exception):  # the caller expects a failure
    """A server sent no response of HTTP/1.1, or not all of one."""


class ResponseHeaders(Mapping[str, str]):
    """Headers, found in any case; equal ones are joined by commas."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, name: str, value: str) -> None:
        """Add a header of the response."""
        name = name.lower()
        self._found[name] = f"{self._found[name]}, {value}" if name in self._found else value

    def __getitem__(self, name: str) -> str:
        return self._found[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class ServerAddress(NamedTuple):
    """An address to connect to.

    With `context` by TLS, with `tunnel` to that server through the proxy at the address.
    """

    host: str
    port: int
    context: SSLContext | None = None
    tunnel: tuple[str, int] | None = None

    @property
    def named(self) -> str:
        """The value of the header Host."""
        host, port = self.tunnel or (self.host, self.port)
        shown = f"[{host}]" if ":" in host else host.encode("idna").decode() if not host.isascii() else host
        return shown if port == (80 if self.context is None else 443) else f"{shown}:{port}"


class HttpSocket:
    """A connection on which requests are sent one after the other.

    Raises OSError, MalformedResponse.
    """

    def __init__(self, address: ServerAddress, *, timeout_s: float, proxy_headers: Mapping[str, str]) -> None:
        self._address = address
        self.socket = _connected(address.host, address.port, timeout_s)
        try:
            if address.context is not None:
                if address.tunnel is not None:
                    self._open_tunnel(address.tunnel, proxy_headers)
                name = (address.tunnel or (address.host,))[0]
                self.socket = address.context.wrap_socket(self.socket, server_hostname=name)
            self._incoming = Incoming(self.socket)
        except BaseException:
            self.socket.close()
            raise

    def send(self, method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> HttpReply:
        """Send a request and read the head of its response."""
        named = target.split("/", 3)[2] if target.startswith("http") else self._address.named
        length = {"Content-Length": str(len(content or b""))} if content is not None or method in _WITH_BODY else {}
        self._send_head(
            f"{method} {target}", {"Host": named, "Accept-Encoding": "identity", **length, **headers}, content
        )
        return HttpReply(self._incoming)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _send_head(self, line: str, headers: Mapping[str, str], content: bytes | None = None) -> None:
        lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if not all(each.isprintable() for each in lines) or line.count(" ") != 1:
            raise MalformedResponse("the request has characters that HTTP does not allow")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (content or b""))

    def _open_tunnel(self, server: tuple[str, int], headers: Mapping[str, str]) -> None:
        place = f"[{server[0]}]:{server[1]}" if ":" in server[0] else f"{server[0]}:{server[1]}"
        self._send_head(f"CONNECT {place}", {"Host": place, **headers})
        incoming = Incoming(self.socket)
        status, _ = _status_of(incoming.line())
        incoming.headers()
        if status != 200:
            raise OSError(f"the proxy refused a tunnel to {place} with {status}")
        if incoming.is_held:
            raise MalformedResponse("the proxy sent something before it was asked for it")


class HttpReply:
    """A response; its content is read once."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        status, minor = 100, 1
        while 100 <= status < 200:  # an interim response precedes the response
            status, minor = _status_of(incoming.line())
            self.headers = incoming.headers()
        self.status_code = status
        options = {each.strip().lower() for each in self.headers.get("connection", "").split(",")}
        self._closes = "close" in options or (minor == 0 and "keep-alive" not in options)
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._left: int | None = None if self._chunked else self._length()
        self._is_over = self._left == 0

    @property
    def may_continue(self) -> bool:
        """Whether the connection may be used again: all was read, and no more came."""
        return self._is_over and not self._closes and not self._incoming.is_held

    def read(self) -> bytes:
        """All of the content."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """The content in the parts in which it arrives."""
        while not self._is_over:
            if self._chunked and not self._left:
                self._begin_chunk()
                continue
            part = self._incoming.some(_PIECE if self._left is None else self._left)
            if not part:
                self._end_early()
            elif self._left is not None:
                self._took(len(part))
            if part:
                yield part

    def _length(self) -> int | None:
        if "transfer-encoding" in self.headers:
            raise MalformedResponse("the server sent its response in a coding that was not asked for")
        if self.status_code in {204, 304}:
            return 0
        given = self.headers.get("content-length")
        if given is None:
            self._closes = True
            return None
        if not _LENGTH.fullmatch(given):
            raise MalformedResponse(f"the server sent a response of length {given[:40]!r}")
        return int(given)

    def _begin_chunk(self) -> None:
        size = _CHUNK.fullmatch(self._incoming.line())
        if size is None:
            raise MalformedResponse("the server sent a chunk without a size")
        self._left = int(size[1], 16)
        if self._left == 0:
            self._incoming.headers()  # trailers say nothing that is needed
            self._is_over = True

    def _took(self, size: int) -> None:
        self._left = (self._left or 0) - size
        if self._left == 0 and self._chunked and self._incoming.line():
            raise MalformedResponse("the server sent a chunk that is longer than its size")
        self._is_over = self._left == 0 and not self._chunked

    def _end_early(self) -> None:
        if self._left is not None:
            raise MalformedResponse("the server closed the connection before the end of its response")
        self._is_over = True


class Incoming:
    """Reads from a server: lines of heads, and pieces of content."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._held, self._at = b"", 0

    @property
    def is_held(self) -> bool:
        """Whether more arrived than was taken."""
        return self._at < len(self._held)

    def line(self) -> bytes:
        """The next line without its end."""
        while (end := self._held.find(b"\n", self._at)) < 0:
            more = self._socket.recv(_PIECE)
            self._held, self._at = self._held[self._at :] + more, 0
            if not more or len(self._held) > LINE_MAX + len(more):
                raise MalformedResponse(f"the server sent {'a line that is too long' if more else 'no whole response'}")
        line, self._at = self._held[self._at : end], end + 1
        return line.removesuffix(b"\r")

    def headers(self) -> ResponseHeaders:
        """The lines up to an empty one."""
        found = ResponseHeaders()
        for _ in range(HEADERS_MAX):
            line = self.line()
            if not line:
                return found
            name, _, value = line.partition(b":")
            if not _NAME.fullmatch(name) or b"\0" in value or b"\r" in value:
                raise MalformedResponse("the server sent a line that is no header")
            found.add(name.decode(), value.strip(b" \t").decode("latin-1"))
        raise MalformedResponse(f"the server sent more than {HEADERS_MAX} headers")

    def some(self, most: int) -> bytes:
        """The next bytes, as they arrive; empty at the end of the connection."""
        if not self.is_held:
            self._held, self._at = self._socket.recv(_PIECE), 0
        begin, self._at = self._at, min(self._at + most, len(self._held))
        return self._held[begin : self._at]


def _status_of(line: bytes) -> tuple[int, int]:
    """The status of a response, and the minor version of its protocol."""
    found = _STATUS.fullmatch(line)
    if found is None:
        raise MalformedResponse("the server sent no response of HTTP/1.1")
    return int(found[2]), int(found[1])


def _connected(host: str, port: int, timeout_s: float) -> socket.socket:
    # A name in bytes is looked up as it is; one in a text loads the tables of other scripts first.
    name = host.encode() if host.isascii() else host
    found = socket.create_connection((name, port), timeout_s)  # type: ignore[arg-type]  # takes bytes, too
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found

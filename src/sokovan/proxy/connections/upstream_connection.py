"""One connection to an endpoint: sends a request, parses the response."""

from __future__ import annotations

import asyncio
import socket
from asyncio import Protocol as ConnectionProtocol
from typing import Protocol, cast

from sokovan.proxy.http.chunks import ChunkDecoder
from sokovan.proxy.http.heads import END_OF_HEAD, HEAD_BYTES_MAX, BadHead, ResponseHead, read_response_head

# Informational responses before the response itself; more are no answer to a request.
INFORMATIONAL_MAX = 16
# After an upgrade nothing limits a silence: a peer that is gone answers none of these probes.
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


def enable_keep_alive(transport: asyncio.Transport) -> None:
    """Let the system find out after two minutes of silence that the peer is gone."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = getattr(socket, name, None)  # not every system has them
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class ResponseSink(Protocol):
    """The request whose response a connection brings."""

    def response_begins(self, head: ResponseHead) -> None:
        """Take over the head; body parts follow."""

    def response_part(self, data: bytes, *, ended: bool) -> None:
        """Take over a part of the body; after `ended` no more follows."""

    def upstream_lost(self, cause: str, *, reused: bool) -> None:
        """Handle a connection that ended before the response did."""

    def upstream_writable(self, *, writable: bool) -> None:
        """Stop or continue to write to the endpoint."""

    def spliced_part(self, data: bytes) -> None:
        """Take over bytes after an upgrade."""


class UpstreamConnection(ConnectionProtocol):
    """A connection that has at most one request at a time.

    `reused`: it had a request before, so its end may be that of an idle connection.
    """

    __slots__ = (
        "_buffer", "_decoder", "_head", "_informational", "_left", "_method", "_sink", "clean", "idle_ms", "received",
        "reused", "spliced", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._sink: ResponseSink | None = None
        self._buffer = b""
        self._head: ResponseHead | None = None
        self._decoder: ChunkDecoder | None = None
        self._informational = 0
        self._left = 0
        self._method = b""
        self.clean = True
        self.reused = False
        self.received = False
        self.spliced = False
        self.idle_ms = 0

    @property
    def usable(self) -> bool:
        """Whether it may get another request."""
        return self.clean and not self.transport.is_closing()

    def begin(self, sink: ResponseSink, method: bytes, data: bytes) -> None:
        """Send the head of a request, with the body as far as it is known."""
        self._sink, self._method = sink, method
        self._head, self._decoder, self._buffer, self.received = None, None, b"", False
        self._informational = 0
        self.transport.write(data)

    def hand_over(self, sink: ResponseSink) -> None:
        """Bring the rest of the response to another."""
        self._sink = sink

    def abandon(self) -> None:
        """Close at once; the request has ended without its response."""
        self._sink = None
        self.clean = False
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what came, to its request."""
        sink = self._sink
        if sink is None:
            # Bytes without a request would be taken for the response to the next one.
            self.clean = False
            self.transport.abort()
            return
        self.received = True
        if self.spliced:
            sink.spliced_part(data)
            return
        try:
            if self._head is not None:
                self._body(sink, self._head, data)
            else:
                self._read_head(sink, data)
        except BadHead:
            self._fail(sink, "malformed-response")

    def _read_head(self, sink: ResponseSink, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while True:
            end = buffer.find(END_OF_HEAD, 0, HEAD_BYTES_MAX + len(END_OF_HEAD))
            if end < 0:
                if len(buffer) > HEAD_BYTES_MAX:
                    self._fail(sink, "malformed-response")
                self._buffer = buffer
                return
            head = read_response_head(buffer[: end + 2], method=self._method)
            buffer = buffer[end + 4 :]
            if head.status >= 200 or head.status == 101:
                break
            self._informational += 1
            if self._informational > INFORMATIONAL_MAX:
                raise BadHead("too many informational responses", status=502)
        self._head, self._buffer = head, b""
        self._left = head.length or 0
        self._decoder = ChunkDecoder() if head.chunked else None
        self.spliced = head.status == 101
        sink.response_begins(head)
        if self._sink is not sink:
            return
        if self.spliced:
            enable_keep_alive(self.transport)
            if buffer:
                sink.spliced_part(buffer)
        else:
            self._body(sink, head, buffer)

    def _body(self, sink: ResponseSink, head: ResponseHead, data: bytes) -> None:
        decoder = self._decoder
        if decoder is not None:
            whole = decoder.whole(data)
            if whole is not None:
                sink.response_part(whole, ended=False)
                return
            pieces = decoder.feed(data)
            ended, excess = decoder.ended, decoder.rest
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        elif head.until_close:
            ended, excess = False, b""
        else:
            data, excess = data[: self._left], data[self._left :]
            self._left -= len(data)
            ended = not self._left
        if ended:
            self._sink = None
            self.clean = self.clean and head.keep_alive and not excess
        sink.response_part(data, ended=ended)

    def _fail(self, sink: ResponseSink, cause: str) -> None:
        self.abandon()
        sink.upstream_lost(cause, reused=False)

    def eof_received(self) -> None:
        """Close; an endpoint that sends no more is of no use."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request, or end its response if it lasts until now."""
        sink, self._sink = self._sink, None
        self.clean = False
        if sink is None:
            return
        if exc is None and self._head is not None and self._head.until_close:
            sink.response_part(b"", ended=True)
        else:
            sink.upstream_lost("reset", reused=self.reused and not self.received)

    def pause_writing(self) -> None:
        """Pass back-pressure on to the client."""
        if self._sink is not None:
            self._sink.upstream_writable(writable=False)

    def resume_writing(self) -> None:
        """Let the client continue."""
        if self._sink is not None:
            self._sink.upstream_writable(writable=True)

"""One connection of a client: requests one after the other, heads parsed strictly."""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import Protocol as ConnectionProtocol
from typing import cast

from sokovan.proxy.connections.attempt import Progress
from sokovan.proxy.connections.exchange import INFORMED, Exchange
from sokovan.proxy.connections.upstream_pools import UpstreamPools
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.http.chunks import ChunkDecoder
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.http.heads import END_OF_HEAD, HEAD_BYTES_MAX, BadHead, read_request_head

# A head must come within this time, and so must the first bytes of a connection.
HEAD_MS = 10_000
# A body may take this long, and a millisecond more for each of these bytes.
BODY_MS, BODY_BYTES_PER_MS = 60_000, 16
IDLE_MS = 75_000
# A client that still sends after the last response is read for this long, so that it sees the response.
LINGER_MS = 2_000
PIPELINED_BYTES_MAX = 64 << 10
# Open connections of clients; each may need another one to an endpoint.
CLIENTS_MAX = 10_000
TOO_MANY = ProxyRefusal(503, "too-many-connections", f"{CLIENTS_MAX} clients are connected", retry_after_s=1)
# On one machine a refusal comes at once, or when the loop has written; `overdue` finds those from farther away.
REFUSED_S = 0.01
_RESET = struct.pack("ii", 1, 0)


class ClientConnection(ConnectionProtocol):
    """Reads requests, and hands each to an Exchange; the next one waits for its end."""

    __slots__ = (
        "_begun_ms", "_blocked", "_body_bytes", "_buffer", "_context", "_decoder", "_exchange", "_half_closed",
        "_in_body", "_left", "_lingers", "_looping", "_pipeline_full", "_pools", "_unwanted", "local", "peer",
        "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, context: ProxyContext, pools: UpstreamPools) -> None:
        self._context, self._pools = context, pools
        self._exchange: Exchange | None = None
        self._buffer = b""
        self._decoder: ChunkDecoder | None = None
        self._left = self._body_bytes = 0
        self._in_body = self._lingers = self._looping = self._pipeline_full = self._unwanted = self._blocked = False
        self._half_closed = False
        self._begun_ms = context.now_ms()
        self.peer, self.local = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the client's address."""
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        host = str(address[0]) if address else ""
        self.peer, self.local = host.encode(), host == "::1" or host.startswith("127.")
        if len(self._context.clients) >= CLIENTS_MAX:
            self._make_room()
        self._context.clients.add(self)

    def _make_room(self) -> None:
        """Close the connection that has had no request for longest, else this one."""
        clients: set[ClientConnection] = self._context.clients
        idle = [one for one in clients if one._exchange is None]
        if idle:
            oldest = min(idle, key=lambda one: one._begun_ms)
            clients.discard(oldest)
            oldest.transport.abort()
        else:
            self._context.counters.answered(TOO_MANY.status)
            self.write(TOO_MANY.response(keep_alive=False))
            self._linger()

    def connection_lost(self, _exc: Exception | None) -> None:
        """End the request of a client that has left."""
        self._context.clients.discard(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone()

    def eof_received(self) -> bool:
        """Answer what was asked before: a client may send no more, and still read.

        One that has left sends the same, and its system refuses what is written to it: something
        is written that a client which reads ignores. Connections with TLS end in both directions.
        """
        if not self.transport.can_write_eof():
            return False
        exchange = self._exchange
        ignored = None if exchange is None or self._in_body else ignored_bytes(exchange)
        if ignored is None:
            return False
        self._half_closed = True
        if ignored:
            self.write(ignored)
            self._close_if_gone()
            self._context.loop.call_later(REFUSED_S, self._close_if_gone)
        return True

    def _close_if_gone(self) -> None:
        """Close if the client has refused what was written."""
        found = self.transport.get_extra_info("socket")
        if found is None or self.transport.is_closing():
            return
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()

    def pause_writing(self) -> None:
        """Pass back-pressure on to the endpoint; the next request waits too."""
        self._blocked = True
        if self._exchange is not None:
            self._exchange.client_writable(writable=False)

    def resume_writing(self) -> None:
        """Let the endpoint continue, or the next request begin."""
        self._blocked = False
        if self._exchange is not None:
            self._exchange.client_writable(writable=True)
        elif not self._lingers:
            self._set_reading()
            self._read_requests()

    def data_received(self, data: bytes) -> None:
        """Read the next part of a request."""
        if self._lingers:
            return
        exchange = self._exchange
        if exchange is not None:
            if self._in_body:
                data = self._read_body(exchange, data)
            elif exchange.from_client(data):
                return
            self._buffer += data
            if len(self._buffer) > PIPELINED_BYTES_MAX:
                self._pipeline_full = True
                self._set_reading()
        elif data:
            if not self._buffer:
                self._begun_ms = self._context.now_ms()
            self._buffer = self._buffer + data if self._buffer else data
        if self._exchange is None:
            self._read_requests()

    def _read_requests(self) -> None:
        """Start the requests in the buffer, one after the other."""
        if self._looping:
            return
        self._looping = True
        try:
            while self._buffer and self._exchange is None and not self._lingers:
                if self._blocked:
                    # Responses that are not read must not pile up.
                    self._set_reading()
                    break
                if not self._read_request():
                    break
        finally:
            self._looping = False
        if self._half_closed and self._exchange is None and not (self._blocked and self._buffer):
            self.transport.close()

    def _read_request(self) -> bool:
        """Start one request; false if its head is not whole, or not accepted."""
        buffer = self._buffer
        end = buffer.find(END_OF_HEAD, 0, HEAD_BYTES_MAX + len(END_OF_HEAD))
        if end < 0:
            if len(buffer) > HEAD_BYTES_MAX:
                self._reject(BadHead(f"the limit of a head is {HEAD_BYTES_MAX} bytes", status=431))
            return False
        try:
            head = read_request_head(buffer[: end + 2])
        except BadHead as problem:
            self._reject(problem)
            return False
        self._buffer = b""
        rest = buffer[end + 4 :]
        exchange = self._exchange = Exchange(self._context, self._pools, self, head)
        if head.length == 0:
            self._buffer = rest
            exchange.begin()
            exchange.body_end()
            return True
        self._in_body, self._left = True, head.length or 0
        self._decoder = ChunkDecoder() if head.chunked else None
        self._begun_ms, self._body_bytes = self._context.now_ms(), 0
        exchange.begin()
        if rest and not exchange.ended:
            rest = self._read_body(exchange, rest)
            self._buffer = rest
        return True

    def _read_body(self, exchange: Exchange, data: bytes) -> bytes:
        """Hand a part of the body on; returns what came after it."""
        self._body_bytes += len(data)
        decoder = self._decoder
        if decoder is not None:
            try:
                pieces = decoder.feed(data)
            except BadHead as problem:
                self._reject(problem)
                exchange.client_gone()
                return b""
            part, rest, ended = b"".join(pieces), decoder.rest, decoder.ended
        else:
            part, rest = data[: self._left], data[self._left :]
            self._left -= len(part)
            ended = not self._left
        if ended:
            self._in_body = False
        if part:
            exchange.body_part(part)
        if ended:
            exchange.body_end()
        return rest

    def _reject(self, problem: BadHead) -> None:
        """Refuse bytes after which no request can be found, and close."""
        self._context.counters.bad_heads += 1
        self._context.counters.answered(problem.status)
        self._buffer = b""
        self.write(ProxyRefusal(problem.status, "bad-request", str(problem)).response(keep_alive=False))
        self._linger()

    def _linger(self) -> None:
        """Send no more and ignore what comes, for a while."""
        self._exchange, self._lingers, self._buffer = None, True, b""
        self._begun_ms = self._context.now_ms()
        self._pipeline_full = self._unwanted = False
        if self._half_closed:
            self.transport.close()
        elif not self.transport.is_closing():
            self._set_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()

    # For the exchange

    def write(self, data: bytes) -> None:
        """Send to the client."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def ended(self, *, keep_alive: bool) -> None:
        """Go on with the next request, or close."""
        self._exchange = None
        if self.transport.is_closing() or self._lingers:
            return
        if self._context.draining or not keep_alive:
            if self._in_body:
                self._linger()
            else:
                self.transport.close()
            return
        self._begun_ms = self._context.now_ms()
        self._pipeline_full = self._unwanted = False
        self._set_reading()
        if self._buffer or self._half_closed:
            self._read_requests()

    def abort(self) -> None:
        """Close by a reset, so that the client sees that the response is not whole."""
        found = self.transport.get_extra_info("socket")
        if found is not None and not self.transport.is_closing():
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def leave(self) -> None:
        """Close: by a reset only if a response is under way."""
        if self._exchange is None:
            self.transport.close()
        else:
            self.abort()

    def readable(self, *, wanted: bool) -> None:
        """Stop or continue to read from the client."""
        self._unwanted = not wanted
        # The time that an endpoint takes does not count against the client.
        self._begun_ms, self._body_bytes = self._context.now_ms(), 0
        self._set_reading()

    def _set_reading(self) -> None:
        if self.transport.is_closing() or self._half_closed:
            return
        if self._unwanted or self._pipeline_full or (self._blocked and self._exchange is None and not self._lingers):
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def overdue(self, now_ms: int) -> None:
        """Close a connection that is idle, or too slow, for too long."""
        age_ms = now_ms - self._begun_ms
        if self._half_closed:
            self._close_if_gone()
        if self._lingers:
            if age_ms > LINGER_MS:
                self.transport.abort()
        elif self._exchange is not None:
            if self._in_body and not self._unwanted and age_ms > BODY_MS + self._body_bytes // BODY_BYTES_PER_MS:
                self.abort()
        elif self._buffer and age_ms > HEAD_MS:
            self._reject(BadHead("the head took too long", status=408))
        elif age_ms > IDLE_MS:
            self.transport.close()


def ignored_bytes(exchange: Exchange) -> bytes | None:
    """Bytes that a client of this request ignores now; None after an upgrade.

    They may be none: for a client of HTTP/1.0, or within a response with a length.
    """
    attempt = exchange.attempt
    if attempt is not None and attempt.progress is Progress.SPLICED:
        return None
    if attempt is not None and attempt.relay is not None:
        return attempt.relay.ignored_bytes
    return INFORMED if exchange.message.head.minor == 1 else b""

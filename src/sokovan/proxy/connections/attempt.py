"""One try of a request at one endpoint.

Load is counted before sending and released on every path: `close` ends a try, once, in
whichever way it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

from sokovan.proxy.connections.last_events import LastEvents
from sokovan.proxy.connections.upstream_connection import UpstreamConnection, enable_keep_alive
from sokovan.proxy.connections.upstream_pools import FOREIGN, UpstreamPools
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.http.head_writer import upgrade_head
from sokovan.proxy.http.heads import ResponseHead
from sokovan.proxy.request_message import RequestMessage
from sokovan.proxy.response_relay import ResponseRelay
from sokovan.proxy.routing.choice import sent
from sokovan.proxy.routing.ejection import FAILURE_STATUSES
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.proxy.routing.route_state import RouteState

# A client that takes nothing of its response for so long is taken to have left.
UNREAD_MS = 120_000
# At an endpoint that fails its checks, or has stalled, a request waits this long for a first byte.
UNHEALTHY_MS = 5_000
# The status with which an engine refuses an inference call that its own queue has no place for.
FULL_STATUS = 429
# The lowest status of errors.
FIRST_ERROR = 400
# No process of the deployment listens at its port: no request is sent there.
_ABSENT = frozenset({"refused", FOREIGN})


class ClientSide(Protocol):
    """The connection that a request came on.

    `peer` is the client's address; `local` says whether that is this machine.
    """

    peer: bytes
    local: bool
    transport: asyncio.Transport

    def write(self, data: bytes) -> None:
        """Send to the client."""

    def ended(self, *, keep_alive: bool) -> None:
        """Go on with the next request, or close."""

    def abort(self) -> None:
        """Close so that the client sees that the response is not whole."""

    def readable(self, *, wanted: bool) -> None:
        """Stop or continue to read from the client."""


class AttemptOwner(Protocol):
    """The request that is tried."""

    message: RequestMessage
    begun_ms: int
    key_id: str

    def tries_elsewhere(self, *, full: bool = False) -> bool:
        """Whether an error is not passed on, because the request is tried again or waits.

        `full`: the endpoint is well, and has no place for the request.
        """

    def attempt_failed(self, cause: str, *, was_sent: bool, reused: bool = False) -> None:
        """The try failed; a `reused` connection may have been closed while idle."""

    def answered(self, *, keep_alive: bool) -> None:
        """The response is whole."""


class Progress(IntEnum):
    """How far a try has come."""

    CONNECTING = 0
    SENT = 1
    STREAMING = 2
    SPLICED = 3


class Attempt:
    """A try; `heard_ms` is when its endpoint sent last, or was sent the request.

    `unread_ms` is since when the client takes no more of the response; 0: it does.
    """

    __slots__ = (
        "_client", "_closed", "_connect", "_context", "_counters", "_head", "_owner", "_pools", "_whole", "connection",
        "endpoint", "heard_ms", "progress", "relay", "route", "unread_ms",
    )  # fmt: skip

    def __init__(
        self, context: ProxyContext, pools: UpstreamPools, owner: AttemptOwner, client: ClientSide, *, now_ms: int
    ) -> None:
        self._context, self._pools, self._owner, self._client = context, pools, owner, client
        self.connection: UpstreamConnection | None = None
        self.relay: ResponseRelay | None = None
        self.progress = Progress.CONNECTING
        self.heard_ms = now_ms
        self.unread_ms = 0
        self._connect: asyncio.Task[None] | None = None
        self._whole = self._closed = False
        self._head = b""

    def start(
        self,
        route: RouteState[Any],
        endpoint: EndpointState,
        chain: tuple[int, ...],
        *,
        may_reuse: bool,
        until_ms: int,
    ) -> None:
        """Take a place at the endpoint and send the request there.

        A new connection is to be open at `until_ms`.
        """
        self.route, self.endpoint = route, endpoint
        sent(route.pool_of(endpoint), endpoint, chain)
        route.in_flight += 1
        idle = self._pools.take(endpoint, self.heard_ms) if may_reuse else None
        if idle is not None:
            self._connected(idle, "")
        else:
            self._connect = self._pools.connect(endpoint, self._connected, left_ms=until_ms - self.heard_ms)

    def close(self, *, counted: Callable[[], None] | None = None) -> None:
        """Return the place; the connection is kept if the response was whole.

        With `counted`, the client has left: it is called when the rest that comes is counted.
        """
        if self._closed:
            return
        self._closed = True
        self.endpoint.outstanding -= 1
        self.route.in_flight -= 1
        if self._connect is not None:
            self._connect.cancel()
        connection = self.connection
        if connection is None:
            return
        if self._whole:
            self._pools.give(self.endpoint, connection, self.heard_ms)
        elif counted is not None and self.relay is not None:
            LastEvents(self._context, connection, self.relay, counted)
        else:
            connection.abandon()

    def note_failure(self, cause: str) -> None:
        """Count a failure of the endpoint."""
        now_ms, endpoint = self._context.now_ms(), self.endpoint
        endpoint.last_error = cause
        self.route.answer_failed(endpoint, self._owner.key_id, now_ms, cause=cause)
        self.route.counters_of(endpoint.entry.revision).failed += 1
        # A connection that was lost ejects at once only where another endpoint takes the requests.
        if cause in _ABSENT or (cause == "reset" and self.route.others_alive(endpoint, now_ms, in_use=True)):
            endpoint.ejection.broken(now_ms, "refused" if cause == "refused" else "reset")
        else:
            endpoint.ejection.failed(now_ms, cause, rate_allowed=not self.route.half_ejected(now_ms))

    def send_head(self) -> None:
        """Send the head of a response whose body was malformed from its begin."""
        self._client.write(self._head)
        self._head = b""

    def overdue(self, now_ms: int) -> None:
        """Give up if the endpoint has been silent for too long, or the client deaf."""
        if not self.awaits_endpoint:
            if self.unread_ms and self.progress is Progress.STREAMING and now_ms - self.unread_ms > UNREAD_MS:
                self._client.abort()
            return
        limits, silent_ms = self.route.entry.limits, now_ms - self.heard_ms
        if self.progress is Progress.SENT and silent_ms > limits.first_byte_ms:
            self._fail("first-byte-timeout")
        elif self.progress is Progress.SENT and self.endpoint.given_up and silent_ms > UNHEALTHY_MS:
            # It is about to be replaced: the request is tried elsewhere now, and not when its connection ends.
            self._fail("unhealthy")
        elif self.progress is Progress.STREAMING and silent_ms > limits.silence_ms:
            self._fail("silence")

    @property
    def awaits_endpoint(self) -> bool:
        """Whether the endpoint is to send something, not the client to send or read."""
        return not self.unread_ms and self._owner.message.ended

    def client_writable(self, *, writable: bool) -> None:
        """Read from the endpoint only while the client takes what comes."""
        connection, now_ms = self.connection, self._context.now_ms()
        if connection is None or connection.transport.is_closing():
            return
        if writable:
            self.unread_ms, self.heard_ms = 0, now_ms
            connection.transport.resume_reading()
        else:
            self.unread_ms = now_ms
            connection.transport.pause_reading()

    def _fail(self, cause: str) -> None:
        self.note_failure(cause)
        self._owner.attempt_failed(cause, was_sent=True)

    def _connected(self, connection: UpstreamConnection | None, cause: str) -> None:
        if self._connect is not None:
            self._connect, self.heard_ms = None, self._context.now_ms()
        if self._closed:
            if connection is not None:
                connection.abandon()
            return
        if connection is None:
            self.note_failure(cause)
            self._owner.attempt_failed(cause, was_sent=False)
            return
        self.connection = connection
        self.progress = Progress.SENT
        message = self._owner.message
        connection.begin(self, message.head.method, message.bytes_for(self.endpoint, peer=self._client.peer))
        if message.streams_up:
            self._client.readable(wanted=True)

    # The response, as the connection brings it

    def response_begins(self, head: ResponseHead) -> None:
        """Pass the head on, unless another endpoint is tried instead."""
        endpoint, now_ms = self.endpoint, self._context.now_ms()
        self.heard_ms = endpoint.last_byte_ms = now_ms
        self._counters = self.route.counters_of(endpoint.entry.revision)
        if head.status == 101 and not self._owner.message.head.websocket:
            self._fail("malformed-response")
            return
        if head.status in FAILURE_STATUSES:
            self.note_failure(str(head.status))
            if self._owner.tries_elsewhere():
                return
        else:
            if head.status >= 500:  # an answer: it counts in the comparison of revisions, and ejects nothing
                self._counters.failed += 1
            endpoint.ejection.succeeded(now_ms)
            endpoint.stalled = False
            if head.status == FULL_STATUS and self._owner.message.call is not None:
                endpoint.said_full(now_ms)
                if self._owner.tries_elsewhere(full=True):
                    return
        self._counters.first_byte(now_ms - self._owner.begun_ms)
        self._context.counters.answered(head.status)
        if head.status == 101:
            self.progress = Progress.SPLICED
            self._client.write(upgrade_head(head))
            enable_keep_alive(self._client.transport)
            return
        self.progress = Progress.STREAMING
        message = self._owner.message
        self.relay = message.relay_for(head, event_usage=endpoint.entry.event_usage)
        if self._context.draining:
            self.relay.keep_alive = False
        # Sent with the first part of the body, which follows at once: one system call less.
        self._head = self.relay.head_bytes(message.head)

    def response_part(self, data: bytes, *, ended: bool) -> None:
        """Pass on a part of the body, the first one with the head."""
        relay = self.relay
        if relay is None or self._closed:
            return
        now_ms = self._context.now_ms()
        if relay.streams and not self._head:
            self._counters.gap(now_ms - self.heard_ms)
        self.heard_ms = self.endpoint.last_byte_ms = now_ms
        out = relay.part(data, ended=ended)
        # Errors come sooner than answers do, and are none.
        timed = relay.head.status < FIRST_ERROR
        if self._head:
            out, self._head = self._head + out, b""
            if timed:
                self.endpoint.times.began(now_ms, now_ms - self._owner.begun_ms)
        if out:
            self._client.write(out)
        if ended:
            self._whole = True
            if timed:
                self.endpoint.times.ended(now_ms, now_ms - self._owner.begun_ms)
            self.route.served += 1
            self._counters.served += 1
            self._count(relay.head.status, now_ms)
            self._owner.answered(keep_alive=relay.keep_alive)

    def _count(self, status: int, now_ms: int) -> None:
        """Count a whole answer, which may be an error of the engine."""
        if status < 500:
            self.route.answer_came(self.endpoint, self._owner.key_id, now_ms)
        elif status not in FAILURE_STATUSES:  # those are counted already
            self.route.answer_failed(self.endpoint, self._owner.key_id, now_ms, cause=f"status {status}")

    def upstream_lost(self, cause: str, *, reused: bool) -> None:
        """The connection ended too early."""
        if self._closed:
            return
        if self.progress is Progress.SPLICED:
            self._client.abort()
            return
        if not reused:
            self.note_failure(cause)
        self._owner.attempt_failed(cause, was_sent=True, reused=reused)

    def upstream_writable(self, *, writable: bool) -> None:
        """Read from the client only while the endpoint takes what comes."""
        self._client.readable(wanted=writable)

    def spliced_part(self, data: bytes) -> None:
        """Pass on bytes after an upgrade."""
        self.endpoint.last_byte_ms = self._context.now_ms()
        self._client.write(data)

"""The rest of a response whose client has left, read to be counted.

The sending side of the engine's connection is closed at once, upon which the engine stops
and closes. All that it had made by then has come when its side ends, too.
"""

from __future__ import annotations

from collections.abc import Callable

from sokovan.proxy.connections.upstream_connection import UpstreamConnection
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.http.heads import ResponseHead
from sokovan.proxy.response_relay import ResponseRelay

# An engine that takes no notice is cut off after this time.
NOTICE_S = 1.0


class LastEvents:
    """Takes the rest of one response; `counted` is called once, when no more comes."""

    __slots__ = ("_connection", "_context", "_counted", "_relay", "_timer")

    def __init__(
        self, context: ProxyContext, connection: UpstreamConnection, relay: ResponseRelay, counted: Callable[[], None]
    ) -> None:
        self._context, self._connection, self._relay, self._counted = context, connection, relay, counted
        context.leaving.add(self)
        self._timer = context.loop.call_later(NOTICE_S, self.end)
        transport = connection.transport
        # TLS has no half-closed connections: what has come by now is all that is counted.
        if transport.is_closing() or not transport.can_write_eof():
            self.end()
            return
        connection.hand_over(self)
        transport.resume_reading()
        transport.write_eof()

    def end(self) -> None:
        """Close the connection, and count."""
        if self in self._context.leaving:
            self._context.leaving.discard(self)
            self._timer.cancel()
            self._connection.abandon()
            self._counted()

    def response_begins(self, head: ResponseHead) -> None:
        """The response has begun before."""

    def response_part(self, data: bytes, *, ended: bool) -> None:
        """Count a part that is passed on no more."""
        self._relay.part(data, ended=ended)
        if ended:
            self.end()

    def upstream_lost(self, cause: str, *, reused: bool) -> None:  # noqa: ARG002  # the form of a ResponseSink
        """The engine has stopped."""
        self.end()

    def upstream_writable(self, *, writable: bool) -> None:
        """Nothing is written any more."""

    def spliced_part(self, data: bytes) -> None:
        """There is no upgrade."""

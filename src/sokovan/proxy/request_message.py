"""A request as an endpoint gets it: head written anew, body kept or streamed."""

from __future__ import annotations

from sokovan.proxy.gateway import repeatable
from sokovan.proxy.http.head_writer import CHUNKED_END, chunk, upstream_head
from sokovan.proxy.http.heads import RequestHead, ResponseHead
from sokovan.proxy.inference_call import InferenceCall, body_for
from sokovan.proxy.response_relay import ResponseRelay
from sokovan.proxy.routing.endpoint_state import EndpointState
from sokovan.wire.serving.route_table import EventUsage, RouteEntry


class RequestMessage:
    """The head and the body of a request.

    `target` is that for the endpoint. The body is `ended` when all of it came; with
    `streams_up` it is sent as it comes, and cannot be sent again. `call` is set for a call
    of the OpenAI API.
    """

    __slots__ = ("_parts", "call", "ended", "head", "inference", "size", "streams_up", "target")

    def __init__(self, head: RequestHead) -> None:
        self.head = head
        self.target = head.target
        self.call: InferenceCall | None = None
        self.inference = self.ended = self.streams_up = False
        self._parts: list[bytes] = []
        self.size = 0

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent twice."""
        return not self.streams_up and repeatable(self.head, inference=self.inference)

    def add(self, data: bytes) -> None:
        """Keep a part of the body."""
        self._parts.append(data)
        self.size += len(data)

    def body(self) -> bytes:
        """The body as far as it came."""
        if len(self._parts) != 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]

    def bytes_for(self, endpoint: EndpointState, *, peer: bytes) -> bytes:
        """Head and body for an endpoint, the body as far as it came."""
        body = self.body()
        if self.call is not None:
            body = body_for(self.call, body, endpoint.entry.upstream_model, endpoint.entry.event_usage)
        length: int | None = len(body)
        if self.streams_up:
            length = self.head.length
            if length is None:
                body = chunk(body) + CHUNKED_END if self.ended else chunk(body)
        head = upstream_head(
            self.head, target=self.target, host=endpoint.address, secret=endpoint.secret, length=length, client=peer
        )
        return head + body

    def session_of(self, entry: RouteEntry) -> bytes:
        """The session of the request for the policy `sticky`."""
        if entry.policy != "sticky":
            return b""
        value = self.head.field(entry.sticky_header.encode()) if entry.sticky_header else b""
        if value or not entry.sticky_cookie:
            return value
        wanted = entry.sticky_cookie.encode() + b"="
        crumbs = (crumb.strip() for crumb in self.head.field(b"cookie").split(b";"))
        return next((crumb[len(wanted) :] for crumb in crumbs if crumb.startswith(wanted)), b"")

    def relay_for(self, head: ResponseHead, *, event_usage: EventUsage = "") -> ResponseRelay:
        """The relay of a response; one before the whole request ends the connection.

        `event_usage`: how the engine reports the usage of each event if it is asked for it.
        """
        call = self.call if head.status < 300 else None
        removes = call is not None and call.adds_usage
        asked = event_usage if call is not None and call.may_add_event_usage else ""
        relay = ResponseRelay(head, self.head, inference=call is not None, removes_usage=removes, event_usage=asked)
        relay.keep_alive = relay.keep_alive and self.ended
        return relay

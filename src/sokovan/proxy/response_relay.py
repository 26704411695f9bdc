"""Turns the response of an endpoint into bytes for the client, counts tokens."""

from __future__ import annotations

from sokovan.proxy.accounts.token_counts import BODY_MAX, EventFilter, TokenCount, count_in, estimate
from sokovan.proxy.http.head_writer import CHUNKED_END, chunk, client_head
from sokovan.proxy.http.heads import RequestHead, ResponseHead
from sokovan.wire.serving.route_table import EventUsage


class ResponseRelay:
    """One response on its way: its head is written anew, its body framed anew.

    `inference`: the response has usage. `removes_usage`: the usage chunk of its stream was
    asked for by the proxy, and `event_usage` the usage of its events. `keep_alive` says
    whether the client's connection may go on.
    """

    __slots__ = ("_body", "_chunked", "_filter", "_kept_bytes", "_received_bytes", "_silent", "head", "keep_alive",
                 "streams")  # fmt: skip

    def __init__(
        self,
        head: ResponseHead,
        request: RequestHead,
        *,
        inference: bool,
        removes_usage: bool,
        event_usage: EventUsage = "",
    ) -> None:
        self.head = head
        self.streams = head.streams
        self._filter = None
        if inference and self.streams:
            self._filter = EventFilter(removes=removes_usage, event_usage=event_usage)
        self._body: list[bytes] | None = [] if inference and not self.streams else None
        self._kept_bytes = self._received_bytes = 0
        self._silent = request.method == b"HEAD"
        length = None if self._filter is not None else head.length
        self._chunked = length is None and request.minor == 1 and not self._silent
        self.keep_alive = request.keep_alive and (length is not None or self._chunked or self._silent)

    def head_bytes(self, request: RequestHead) -> bytes:
        """The head for the client."""
        length = None if self._chunked or self._filter is not None else self.head.length
        return client_head(self.head, minor=request.minor, length=length, keep_alive=self.keep_alive)

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """The bytes for the client of the next part of the body."""
        self._received_bytes += len(data)
        if self._filter is not None:
            data = self._filter.feed(data)
            if ended:
                data += self._filter.finish()
        elif self._body is not None:
            self._keep(data)
        if not self._chunked:
            return data
        return chunk(data) + CHUNKED_END if ended else chunk(data)

    @property
    def ignored_bytes(self) -> bytes:
        """Bytes that change nothing: a zero before the size of the next chunk."""
        return b"0" if self._chunked else b""

    def broken_off(self, event: bytes) -> bytes | None:
        """The last bytes of a stream whose endpoint failed; None for an abort."""
        if not self.streams:
            return None
        if self._chunked:
            # A response that ends as it should, on a connection that goes on as its head has said.
            return chunk(event) + CHUNKED_END
        bounded = self._filter is None and self.head.length is not None
        return None if bounded else event

    def count(self, sent_bytes: int) -> TokenCount:
        """The tokens of the request; estimated if the engine did not report them."""
        found = self._filter.count if self._filter is not None else count_in(b"".join(self._body or ()))
        if found is not None:
            return found
        events = self._filter.events if self._filter is not None else 0
        return estimate(sent_bytes=sent_bytes, received_bytes=self._received_bytes, events=events)

    def _keep(self, data: bytes) -> None:
        if self._body is not None:
            self._kept_bytes += len(data)
            if self._kept_bytes > BODY_MAX:
                self._body = None
            else:
                self._body.append(data)

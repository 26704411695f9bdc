"""uvicorn's protocols with limits on connections."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sokovan.entrypoints.web.connection_limits import Connections
from sokovan.entrypoints.web.response_writes import ResponseWrites

HEAD_BYTES_MAX = 64 << 10


class BoundedHttp(HttpToolsProtocol):
    """HTTP whose requests arrive in time and with a head of bounded size.

    Without this, uvicorn waits for a request for ever and collects its head without limit.
    """

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounded = connections
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Admit or close a new connection."""
        super().connection_made(cast("asyncio.Transport", ResponseWrites(transport)))
        self._bounded.admit(self.transport, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        self._bounded.release(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; a head that is too long ends the connection."""
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("Request head too large.")

    def on_headers_complete(self) -> None:
        """The head has come in time; wait for the body."""
        self._head_bytes = -(1 << 62)  # what follows is bounded by the limit of bodies
        self._bounded.expect(self.transport, self._bounded.limits.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete: a response may take as long as it likes."""
        self._head_bytes = 0
        if self.cycle is not None and self.cycle.response_complete:  # refused before its body had come
            self._bounded.expect(self.transport, self._bounded.limits.idle_s)
        else:
            self._bounded.serve(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, if it has not come yet."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._bounded.expect(self.transport, self._bounded.limits.idle_s)


class BoundedSockets(WebSocketsSansIOProtocol):
    """WebSockets, with an HTTP response to the handshake counted as its end."""

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bounded = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection was admitted with the request that it began with."""
        super().connection_made(transport)
        self._bounded.serve(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        self._bounded.release(self.transport)
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        """Send a message; without this, uvicorn logs a refused handshake as incomplete."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent

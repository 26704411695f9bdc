"""Streams that agents were requested to open."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass, field

from sokovan.adapters.agentlink.duplex import Stream


@dataclass(slots=True)
class PendingStream:
    """One requested stream.

    Only the agent with the credential `token` may open it.
    """

    stream_id: str
    token: str = field(repr=False)
    arrived: asyncio.Future[Stream]
    left: asyncio.Event = field(default_factory=asyncio.Event)


class PendingStreams:
    """The requested streams; each is opened once, or discarded."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingStream] = {}

    def expect(self, token: str) -> PendingStream:
        """Expect a stream from the agent with this credential."""
        call = PendingStream(secrets.token_urlsafe(32), token, asyncio.get_running_loop().create_future())
        self._pending[call.stream_id] = call
        return call

    def discard(self, call: PendingStream) -> None:
        """The stream is no longer needed."""
        self._pending.pop(call.stream_id, None)
        call.left.set()

    def is_expected(self, stream_id: str, token: str) -> bool:
        """Whether the agent with this credential was requested to open this stream."""
        call = self._pending.get(stream_id)
        return call is not None and hmac.compare_digest(call.token.encode(), token.encode())

    async def serve(self, stream_id: str, stream: Stream) -> None:
        """Hand over a stream; returns when it is no longer needed. The caller disconnects."""
        call = self._pending.pop(stream_id, None)
        if call is not None and not call.arrived.done():
            call.arrived.set_result(stream)
            await call.left.wait()

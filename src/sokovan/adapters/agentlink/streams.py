"""Streams that agents were asked to dial, from the asking to the last byte."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass, field

from sokovan.adapters.agentlink.duplex import Stream


@dataclass(slots=True)
class StreamCall:
    """One stream that somebody waits for.

    `token` is the credential of the agent that was asked; nobody else may bring it.
    """

    stream_id: str
    token: str = field(repr=False)
    arrived: asyncio.Future[Stream]
    left: asyncio.Event = field(default_factory=asyncio.Event)


class PendingStreams:
    """The calls that are open. Each is taken up once, or given up."""

    def __init__(self) -> None:
        self._calls: dict[str, StreamCall] = {}

    def call(self, token: str) -> StreamCall:
        """Expect a stream from the agent with this credential."""
        call = StreamCall(secrets.token_urlsafe(32), token, asyncio.get_running_loop().create_future())
        self._calls[call.stream_id] = call
        return call

    def leave(self, call: StreamCall) -> None:
        """Nobody waits for this stream, or uses it, any more."""
        self._calls.pop(call.stream_id, None)
        call.left.set()

    def is_awaited(self, stream_id: str, token: str) -> bool:
        """Whether the agent with this credential was asked for this stream."""
        call = self._calls.get(stream_id)
        return call is not None and hmac.compare_digest(call.token.encode(), token.encode())

    async def serve(self, stream_id: str, stream: Stream) -> None:
        """Hand a stream over, and return when it is done with; the caller then hangs up."""
        call = self._calls.pop(stream_id, None)
        if call is not None and not call.arrived.done():
            call.arrived.set_result(stream)
            await call.left.wait()

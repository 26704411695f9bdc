"""Server-sent event streams with keep-alive, key checks and time limits.

A stream ends when the key is revoked, the server stops or it has lasted too long; an
error becomes the last event.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sokovan.api.access.authentication import AuthenticatedPrincipal, Authenticator
from sokovan.api.errors import Unauthenticated
from sokovan.api.operations import EVENT_STREAM
from sokovan.api.problems import problem_of
from sokovan.api.settings import StreamLimits
from sokovan.api.streaming.event_hub import EventHub, EventListener
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import SessionId
from sokovan.ports.environment import Clock

ALIVE = b": alive\n\n"
UNTIL_WOKEN = math.inf
_logger = logging.getLogger("sokovan.api")

# A source yields bytes to send, or the seconds to pause.
Source: TypeAlias = AsyncGenerator[bytes | float, None]


def sse(event: str, content: object, *, event_id: str = "") -> bytes:
    """One server-sent event with a JSON object as its data."""
    number = f"id: {event_id}\n".encode() if event_id else b""
    return b"event: %s\n%sdata: %s\n\n" % (event.encode(), number, msgspec.json.encode(content))


class Streams:
    """Creates streams from sources."""

    def __init__(self, hub: EventHub, authenticator: Authenticator, *, clock: Clock, limits: StreamLimits) -> None:
        self.hub, self.limits, self._authenticator, self._clock = hub, limits, authenticator, clock

    def response(
        self,
        principal: AuthenticatedPrincipal,
        source: Callable[[EventListener], Source],
        *,
        session_id: SessionId | None = None,
    ) -> EventStream:
        """The response that streams this source. Raises StreamsFull."""
        self.hub.require_room(principal.user)
        return EventStream(self._stream(principal, source, session_id))

    async def pause(self, listener: EventListener, seconds: float) -> None:
        """Wait until the listener is woken, or for `seconds`."""
        if math.isinf(seconds):
            await listener.woken.wait()
        else:
            waits = [asyncio.ensure_future(listener.woken.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
        listener.woken.clear()

    async def require_key(self, principal: AuthenticatedPrincipal) -> None:
        """Raises Unauthenticated once the key is revoked, or its user was changed."""
        found = await self._authenticator.current(principal.digest)
        if found is None or found.user != principal.identity.user:
            raise Unauthenticated

    async def _stream(
        self, principal: AuthenticatedPrincipal, source: Callable[[EventListener], Source], session_id: SessionId | None
    ) -> AsyncGenerator[bytes, None]:
        try:
            with self.hub.listening(principal.user, session_id) as listener:
                async with aclosing(self._guarded(principal, listener, source(listener))) as guarded:
                    async for part in guarded:
                        yield part
        except SokovanError as error:
            yield sse("problem", problem_of(error, principal.request_id))
        except Exception as error:
            _logger.exception("stream %s failed", principal.request_id)
            yield sse("problem", problem_of(error, principal.request_id))

    async def _guarded(
        self, principal: AuthenticatedPrincipal, listener: EventListener, source: Source
    ) -> AsyncGenerator[bytes, None]:
        limits = self.limits
        began_s = sent_s = checked_s = self._now_s()
        async with aclosing(source):
            async for item in source:
                if isinstance(item, bytes):
                    yield item
                    sent_s = self._now_s()
                else:
                    await self.pause(listener, item)
                now_s = self._now_s()
                if self.hub.closing or now_s - began_s >= limits.lasts_s_max:
                    return
                if now_s - checked_s >= limits.recheck_s:
                    await self.require_key(principal)
                    checked_s = now_s
                if now_s - sent_s >= limits.idle_s:
                    yield ALIVE
                    sent_s = now_s

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000


class EventStream(StreamingResponse):
    """A streaming response that closes its source, even if it was never read."""

    media_type = EVENT_STREAM

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        self._content = content
        super().__init__(content, headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the source ends or the client disconnects."""
        async with aclosing(self._content):
            await super().__call__(scope, receive, send)

"""Routes that stream changes of sessions and of all visible objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import read_summary
from sokovan.api.context import ApiContext
from sokovan.api.mapping.events import event_view, event_views, missed_view
from sokovan.api.operations import EVENT_STREAM, ApiOperation
from sokovan.api.routes.parameters import Ref
from sokovan.api.streaming.event_hub import EventListener
from sokovan.api.streaming.event_streams import UNTIL_WOKEN, Source, sse
from sokovan.api.streaming.session_watch import WatchedSessions
from sokovan.api.streaming.visibility import EventVisibility, SessionOwners
from sokovan.domain.events import Event, KernelsMoved
from sokovan.domain.ids import SessionId
from sokovan.wire.api.sessions import SessionView
from sokovan.wire.api.system import EventView

CONNECTED = b": connected\n"
# The longest `Last-Event-ID`.
PLACE_MAX = 100
# The pause after a read of a large session, as a multiple of the time that it took; its own moves end the pause.
_PAUSE_TIMES = 20
_PAUSE_MAX_S = 2.0
# New reasons of waiting sessions are sent together, this far apart.
_REASONS_EVERY_MS = 1_000
# Encoded events that are kept for other streams; those of many kernels are long.
_CHANGES_KEPT, _LONG_KEPT = 2_000, 100
# Events are sent together, up to so many bytes: sending costs far more than an event.
_SENT_BYTES = 65_536


class WatchRoutes:
    """Streams of changes."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._clock, self._streams = dependencies.store, dependencies.clock, context.streams
        # Shared by all streams: an event costs at most one read, however many watch.
        self._owners, self._watched = SessionOwners(self._store), WatchedSessions(self._store, self._clock)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/sessions/{ref}/events", endpoint=self.session, tag="watch",
                answer=SessionView, media=EVENT_STREAM, fails=(404, 409),
            ),
            ApiOperation(
                method="GET", path="/api/v1/events", endpoint=self.everything, tag="watch",
                answer=EventView, media=EVENT_STREAM,
            ),
        ]  # fmt: skip

    async def session(self, request: Request, ref: Ref) -> Response:
        """Watch a session: a SessionView now and at each change, until it has ended.

        Server-sent events `session`; after an error the last event is a `problem`.
        """
        principal = principal_of(request.scope)
        record = await read_summary(self._store, ref, principal)
        session_id = record.session_id
        return self._streams.response(principal, lambda ear: self._changes(ear, session_id), session_id=session_id)

    async def everything(
        self, request: Request, last_event_id: Annotated[str | None, Header(max_length=PLACE_MAX)] = None
    ) -> Response:
        """Watch changes of the sessions, kernels and agents that the caller may see.

        Server-sent events `change` with an EventView; `resync` means that some were
        missed. A new session is an event, with the trigger `submitted`. Then it starts, or gets
        a reason: an event about `verdicts`.
        `Last-Event-ID` resumes after that event, if the server still has what followed; some
        events may be repeated.
        """
        principal = principal_of(request.scope)
        return self._streams.response(principal, lambda ear: self._events(ear, principal, last_event_id or ""))

    async def _changes(self, listener: EventListener, session_id: SessionId) -> Source:
        last = b""
        while True:
            # Cleared before the store is read, so that a concurrent change triggers another read.
            listener.take()
            found = await self._watched.current(session_id)
            if found.event != last:
                yield found.event
                last = found.event
            if found.is_final:
                return
            read_ms = self._clock.monotonic_ms()
            if found.is_large:  # its streams must not fill the loop
                rested_ms = read_ms + min(_PAUSE_MAX_S * 1000, _PAUSE_TIMES * found.took_ms)
                while not listener.is_urgent and (left_ms := rested_ms - self._clock.monotonic_ms()) > 0:
                    yield left_ms / 1000
            due_ms = read_ms + self._streams.limits.reread_s * 1000
            while not listener.has_events and self._clock.monotonic_ms() < due_ms:
                yield UNTIL_WOKEN

    async def _events(self, listener: EventListener, principal: AuthenticatedPrincipal, seen: str) -> Source:
        visibility, recent = EventVisibility(self._owners, principal), self._streams.hub.recent
        if seen:
            self._streams.hub.resume(listener, seen)
        # Confirms the connection: from here on nothing is missed unless `resync` is sent.
        yield CONNECTED + (b"" if seen else _place(recent.place(recent.number))) + b"\n"
        due_ms = 0
        while True:
            events, lost = listener.take()
            taken = recent.number
            complete = listener.complete_to(taken)
            blocks = [block for event in await visibility.of(events) for block in _changes(event)]
            now_ms = self._clock.monotonic_ms()
            if now_ms >= due_ms and (reasons := listener.take_reasons()):
                blocks += [sse("change", event_view(changed)) for changed in await visibility.of_reasons(reasons)]
                due_ms, complete = now_ms + _REASONS_EVERY_MS, taken
            if lost:
                blocks.insert(0, sse("resync", missed_view(self._clock.now_ms())))
            if blocks:
                # A client that has the last block has all of them.
                blocks[-1] = _place(recent.place(complete)) + blocks[-1]
            for part in _joined(blocks):
                yield part
            if not listener.has_events:
                yield UNTIL_WOKEN


def _place(place: str) -> bytes:
    return f"id: {place}\n".encode()


def _joined(blocks: Sequence[bytes]) -> Iterator[bytes]:
    """The blocks in few parts, so that streams that are woken together do not hold up the others."""
    part: list[bytes] = []
    size = 0
    for block in blocks:
        part.append(block)
        size += len(block)
        if size >= _SENT_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def _changes(event: Event) -> tuple[bytes, ...]:
    """An event as it is sent; encoded once for all streams, which get it at about the same time."""
    return _long(event) if isinstance(event, KernelsMoved) else _short(event)


def _encoded(event: Event) -> tuple[bytes, ...]:
    return tuple([sse("change", view) for view in event_views(event)])


_short, _long = lru_cache(maxsize=_CHANGES_KEPT)(_encoded), lru_cache(maxsize=_LONG_KEPT)(_encoded)

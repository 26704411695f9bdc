"""Watching: each change of a session, and everything that happens to one's objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.authentication import Asker
from sokovan.api.context import ApiContext
from sokovan.api.gate import asker_of
from sokovan.api.hub import Listener
from sokovan.api.lookup import seen_by, session_named
from sokovan.api.mapping.events import SHARED, event_view, session_of
from sokovan.api.mapping.sessions import is_final
from sokovan.api.mapping.times import time_text
from sokovan.api.operations import EVENT_STREAM, Operation
from sokovan.api.routes.parameters import Ref
from sokovan.api.routes.sessions import viewed
from sokovan.api.streams import UNTIL_WOKEN, Source, sse
from sokovan.domain.events import Event
from sokovan.domain.ids import SessionId
from sokovan.domain.record import SessionRecord
from sokovan.domain.tenancy import Role
from sokovan.ports.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.api.sessions import SessionView
from sokovan.wire.api.system import EventView

CONNECTED = b": connected\n\n"
KNOWN_MAX = 10_000
ASKED_AT_ONCE = 200


class WatchRoutes:
    """Streams of what changes."""

    def __init__(self, context: ApiContext) -> None:
        self._parts, self._streams = context.parts, context.streams

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET", path="/api/v1/sessions/{ref}/events", endpoint=self.session, tag="watch",
                media=EVENT_STREAM, fails=(404, 409),
            ),
            Operation(method="GET", path="/api/v1/events", endpoint=self.everything, tag="watch", media=EVENT_STREAM),
        ]  # fmt: skip

    async def session(self, request: Request, ref: Ref) -> Response:
        """Watch a session: a SessionView at once and at each change, until it has ended.

        Server-sent events `session`; a `problem` is the last one where something went wrong.
        """
        asker = asker_of(request.scope)
        record = await self._parts.store.read(lambda unit: session_named(unit, ref, asker))
        session_id = record.session_id
        return self._streams.response(asker, lambda ear: self._changes(ear, session_id), session_id=session_id)

    async def everything(self, request: Request) -> Response:
        """Watch what happens to sessions, kernels and machines that the caller may see.

        Server-sent events `change` with an EventView; `resync` says that some were missed.
        """
        asker = asker_of(request.scope)
        return self._streams.response(asker, lambda ear: self._happenings(ear, asker))

    async def _changes(self, listener: Listener, session_id: SessionId) -> Source:
        async def work(unit: UnitOfWork) -> tuple[SessionRecord, SessionView]:
            record = await unit.sessions.get(session_id)
            return record, await viewed(unit, record)

        last, read_ms = b"", 0
        while True:
            # Cleared before the store is read: what happens meanwhile causes another look.
            listener.take()
            record, view = await self._parts.store.read(work)
            text = msgspec.json.encode(view)
            if text != last:
                yield sse("session", view, event_id=str(record.version))
                last = text
            if is_final(record):
                return
            read_ms = self._parts.clock.monotonic_ms()
            due_ms = read_ms + self._streams.limits.reread_s * 1000
            while not listener.heard and self._parts.clock.monotonic_ms() < due_ms:
                yield UNTIL_WOKEN

    async def _happenings(self, listener: Listener, asker: Asker) -> Source:
        sight = _Sight(self._parts.store, asker)
        # The client hears at once that it is connected: from here on nothing is missed unless `resync` says so.
        yield CONNECTED
        while True:
            events, lost = listener.take()
            if lost:
                yield sse("resync", self._missed())
            for event in await sight.of(events):
                yield sse("change", event_view(event))
            if not listener.heard:
                yield UNTIL_WOKEN

    def _missed(self) -> EventView:
        at = time_text(self._parts.clock.now_ms())
        return EventView(object="stream", id="", before=None, after="resync", trigger="lost", at=at)


class _Sight:
    """Which events one caller may hear of; whose a session is, is looked up once."""

    def __init__(self, store: Store, asker: Asker) -> None:
        self._store, self._asker = store, asker
        self._known: OrderedDict[SessionId, bool] = OrderedDict()

    async def of(self, events: Sequence[Event]) -> list[Event]:
        """Those of the events that the caller may hear of."""
        if self._asker.standing.role is Role.ADMIN:
            return list(events)
        about = {session_of(event) for event in events} - {None}
        await self._look([one for one in about if one is not None and one not in self._known])
        return [event for event in events if self._visible(event)]

    def _visible(self, event: Event) -> bool:
        about = session_of(event)
        return event_view(event).object in SHARED if about is None else self._known.get(about, False)

    async def _look(self, unknown: Sequence[SessionId]) -> None:
        for start in range(0, len(unknown), ASKED_AT_ONCE):
            ids = unknown[start : start + ASKED_AT_ONCE]
            own = await self._own(seen_by(self._asker, SessionFilter(ids=ids)))
            self._known.update({one: one in own for one in ids})
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def _own(self, wanted: SessionFilter | None) -> set[SessionId]:
        if wanted is None:
            return set()
        found = await self._store.read(lambda unit: unit.sessions.page(wanted, limit=ASKED_AT_ONCE))
        return {record.session_id for record in found}

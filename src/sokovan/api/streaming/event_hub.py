"""One ear on the event bus for every stream of this process.

An event is a hint. Whoever watches a session is woken by it and reads the store;
whoever was too slow, or hears that events were lost, reads the store as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from sokovan.api.errors import StreamsFull
from sokovan.api.mapping.events import sessions_of
from sokovan.api.settings import StreamLimits
from sokovan.domain.events import Event, VerdictsChanged
from sokovan.domain.ids import SessionId
from sokovan.ports.environment import Clock, IdSource
from sokovan.ports.events import Delivery, EventBus

_logger = logging.getLogger("sokovan.api")

RECEIVED_AT_ONCE = 500
RECEIVE_S = 5.0
RETRY_AFTER_S = 5.0


class EventListener:
    """One stream's ear: woken by what concerns it, and by the passing of time.

    With a session, only the wake-up counts. Without one every event is kept, up to
    `queue_max`; of what is beyond that, only that it was lost.
    """

    def __init__(self, session_id: SessionId | None, *, queue_max: int) -> None:
        self.session_id = session_id
        self.woken = asyncio.Event()
        self.heard = False
        self._lost = False
        self._events: deque[Event] = deque()
        self._queue_max = queue_max

    def tell(self, event: Event) -> None:
        """Something happened."""
        if self.session_id is None and len(self._events) >= self._queue_max:
            self._events.clear()
            self._lost = True
        elif self.session_id is None:
            self._events.append(event)
        self.heard = True
        self.woken.set()

    def tell_lost(self) -> None:
        """Something may have happened that nobody heard of."""
        self.heard = self._lost = True
        self.woken.set()

    def take(self) -> tuple[list[Event], bool]:
        """What came since the last look, and whether something is missing before it."""
        events, lost = list(self._events), self._lost
        self._events.clear()
        self.heard = self._lost = False
        return events, lost


class EventHub:
    """One subscription to the bus, fanned out to every stream."""

    def __init__(self, events: EventBus, *, clock: Clock, ids: IdSource, limits: StreamLimits) -> None:
        self._events, self._clock, self._ids, self._limits = events, clock, ids, limits
        self._holders: dict[EventListener, str] = {}
        self._by_session: dict[SessionId | None, set[EventListener]] = {}
        self.closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen to the bus for as long as the context is open."""
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tick())]
        try:
            yield
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, delivery: Delivery) -> None:
        """Pass on what came from the bus."""
        if delivery.lost:
            for listener in self._holders:
                listener.tell_lost()
        for event in delivery.events:
            # Thousands may hear a new reason at once, which would drown every move of whoever watches all.
            if not isinstance(event, VerdictsChanged):
                self._tell(None, event)
            for about in sessions_of(event):
                self._tell(about, event)

    def close(self) -> None:
        """End every stream, so that a server that stops need not wait for its clients."""
        self.closing = True
        for listener in self._holders:
            listener.woken.set()

    def require_room(self, key: str) -> None:
        """Raises StreamsFull where one more stream of this key would be too many."""
        own = sum(holder == key for holder in self._holders.values())
        if len(self._holders) >= self._limits.streams_max or own >= self._limits.streams_per_key_max:
            raise StreamsFull(
                f"{len(self._holders)} streams are open, {own} of them with this key", wait_s=RETRY_AFTER_S
            )

    @contextmanager
    def listening(self, key: str, session_id: SessionId | None = None) -> Iterator[EventListener]:
        """An ear for one stream. Raises StreamsFull."""
        self.require_room(key)
        listener = EventListener(session_id, queue_max=self._limits.queue_max)
        self._holders[listener] = key
        self._by_session.setdefault(session_id, set()).add(listener)
        try:
            yield listener
        finally:
            del self._holders[listener]
            self._by_session[session_id].discard(listener)
            if not self._by_session[session_id]:
                del self._by_session[session_id]

    def _tell(self, about: SessionId | None, event: Event) -> None:
        for listener in self._by_session.get(about, ()):
            listener.tell(event)

    async def _listen(self) -> None:
        """Hear the bus, whatever happens to it."""
        while True:
            try:
                await self._hear()
            except Exception:
                _logger.exception("the ear on the event bus failed; it listens again")
            # What came meanwhile is not known.
            self.tell(Delivery(lost=True))
            await self._clock.sleep(self._limits.recheck_s)

    async def _hear(self) -> None:
        # A group of its own: every process of the API hears everything.
        subscription = await self._events.subscribe(group=self._ids.new("api"), consumer="api")
        try:
            while True:
                delivery = await subscription.receive(limit=RECEIVED_AT_ONCE, wait_s=RECEIVE_S)
                self.tell(delivery)
                await subscription.acknowledge(delivery)
        finally:
            with suppress(Exception):  # the bus may be gone before us
                await subscription.close()

    async def _tick(self) -> None:
        """One timer for all: each stream looks at its clock when it is woken."""
        while True:
            await self._clock.sleep(self._limits.recheck_s)
            for listener in self._holders:
                listener.woken.set()

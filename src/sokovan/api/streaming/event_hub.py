"""One event bus subscription, shared by every stream of this process.

An event is a hint. A stream of a session is woken by it and reads the store; a stream
that was too slow, or missed events, reads the store as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from sokovan.api.errors import StreamsFull
from sokovan.api.mapping.events import sessions_of, submitted_event
from sokovan.api.settings import StreamLimits
from sokovan.api.streaming.event_memory import RecentEvents
from sokovan.domain.events import Event, KernelMoved, KernelsMoved, SessionsSubmitted, VerdictsChanged
from sokovan.domain.ids import SessionId
from sokovan.domain.records import SessionRecord
from sokovan.ports.environment import Clock, IdSource
from sokovan.ports.events import Delivery, EventBus

_logger = logging.getLogger("sokovan.api")

RECEIVED_AT_ONCE = 500
RECEIVE_S = 5.0
RETRY_AFTER_S = 5.0
# New reasons that a stream keeps until it sends them; beyond that they count as lost.
REASONS_MAX = 10_000
# New sessions that are remembered until the bus delivers their event.
ANNOUNCED_MAX = 2_000
# In place of a session: a stream that something else wakes than events.
NO_EVENTS = SessionId("")


class EventListener:
    """The event queue of one stream; woken by its events and by a timer.

    With a session, only the wake-up counts; it `is_urgent` if more than kernels moved, or events were
    lost. Without one every event is queued, up to `queue_max`; beyond that, events are
    dropped and marked as lost.
    """

    def __init__(self, session_id: SessionId | None, *, queue_max: int) -> None:
        self.session_id = session_id
        self.woken = asyncio.Event()
        self.has_events = self.is_urgent = False
        self._lost = False
        self._events: deque[Event] = deque()
        self._reasons: dict[SessionId, VerdictsChanged] = {}
        # The number of the first event among the reasons that wait to be sent.
        self._reasons_from = 0
        self._queue_max = queue_max

    def put(self, event: Event) -> None:
        """Queue an event and wake the stream."""
        if self.session_id is None and len(self._events) >= self._queue_max:
            self._events.clear()
            self._lost = True
        elif self.session_id is None:
            self._events.append(event)
        self.has_events = True
        self.is_urgent = self.is_urgent or not isinstance(event, KernelMoved | KernelsMoved)
        self.woken.set()

    def put_reasons(self, event: VerdictsChanged, number: int = 0) -> None:
        """Keep the new reason of each session, which the stream sends together."""
        if not self._reasons:
            self._reasons_from = number
        if len(self._reasons) + len(event.session_ids) > REASONS_MAX:
            self._reasons.clear()
            self.mark_lost()
        else:
            self._reasons.update(dict.fromkeys(event.session_ids, event))
            self.woken.set()

    def take_reasons(self) -> dict[SessionId, VerdictsChanged]:
        """The last new reason of each session since the last call."""
        reasons, self._reasons = self._reasons, {}
        return reasons

    def complete_to(self, number: int) -> int:
        """How many of the first `number` events this stream has taken without a gap."""
        return min(number, self._reasons_from - 1) if self._reasons else number

    def mark_lost(self) -> None:
        """Mark that events may have been lost."""
        self.has_events = self.is_urgent = self._lost = True
        self.woken.set()

    def take(self) -> tuple[list[Event], bool]:
        """The events since the last call, and whether some were lost before them."""
        events, lost = list(self._events), self._lost
        self._events.clear()
        self.has_events = self.is_urgent = self._lost = False
        return events, lost


class EventHub:
    """One subscription to the bus, fanned out to every stream."""

    def __init__(self, events: EventBus, *, clock: Clock, ids: IdSource, limits: StreamLimits) -> None:
        self._events, self._clock, self._ids, self._limits = events, clock, ids, limits
        self._holders: dict[EventListener, str] = {}
        self._by_session: dict[SessionId | None, set[EventListener]] = {}
        self._bells: dict[EventListener, tuple[type[Event], ...]] = {}
        self._announced: OrderedDict[SessionId, int] = OrderedDict()
        self.recent = RecentEvents(ids.new("events"), most=limits.queue_max)
        self.closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Receive from the bus as long as the context is open."""
        tasks = [asyncio.create_task(self._receive_forever()), asyncio.create_task(self._tick())]
        try:
            yield
        finally:
            self.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def announce(self, sessions: Sequence[SessionRecord]) -> None:
        """Notify the streams of sessions of one owner that this process has stored.

        The bus delivers their event later, when the scheduler is busy much later.
        """
        event = submitted_event(sessions, self._clock.now_ms())
        for session_id in event.session_ids:
            self._announced[session_id] = event.count
        while len(self._announced) > ANNOUNCED_MAX:
            self._announced.popitem(last=False)
        self._dispatch_event(event)

    def dispatch(self, delivery: Delivery) -> None:
        """Dispatch a delivery to the streams."""
        if delivery.lost:
            self.recent.forget()
            for listener in (*self._holders, *self._bells):
                listener.mark_lost()
        for event in delivery.events:
            if not (isinstance(event, SessionsSubmitted) and self._was_announced(event)):
                self._dispatch_event(event)

    def resume(self, listener: EventListener, place: str) -> None:
        """Queue the events after a place of an earlier stream.

        If the place is unknown, mark them as lost.
        """
        missed = self.recent.since(place)
        # They are among the recent ones.
        listener.take()
        listener.take_reasons()
        if missed is None:
            listener.mark_lost()
            return
        for number, event in enumerate(missed, self.recent.number - len(missed) + 1):
            self._put(listener, event, number)

    def close(self) -> None:
        """End every stream, so that the server can stop without waiting."""
        self.closing = True
        for listener in self._holders:
            listener.woken.set()

    def require_room(self, user: str) -> None:
        """Raises StreamsFull if this user has the maximum number of streams."""
        own = sum(holder == user for holder in self._holders.values())
        if len(self._holders) >= self._limits.streams_max or own >= self._limits.streams_per_user_max:
            raise StreamsFull(f"{len(self._holders)} streams are open, {own} of them of {user}", wait_s=RETRY_AFTER_S)

    @contextmanager
    def listening(self, user: str, session_id: SessionId | None = None) -> Iterator[EventListener]:
        """A listener for one stream. Raises StreamsFull."""
        self.require_room(user)
        listener = EventListener(session_id, queue_max=self._limits.queue_max)
        self._holders[listener] = user
        self._by_session.setdefault(session_id, set()).add(listener)
        try:
            yield listener
        finally:
            del self._holders[listener]
            self._by_session[session_id].discard(listener)
            if not self._by_session[session_id]:
                del self._by_session[session_id]

    @contextmanager
    def noticing(self, *kinds: type[Event]) -> Iterator[EventListener]:
        """A listener that events of these kinds only wake; it counts as no stream."""
        bell = EventListener(None, queue_max=0)
        self._bells[bell] = kinds
        try:
            yield bell
        finally:
            del self._bells[bell]

    def _dispatch_event(self, event: Event) -> None:
        self.recent.add(event)
        for bell, kinds in self._bells.items():
            if isinstance(event, kinds):
                bell.put(event)
        for listener in self._by_session.get(None, ()):
            self._put(listener, event, self.recent.number)
        for about in sessions_of(event):
            self._dispatch(about, event)

    def _was_announced(self, event: SessionsSubmitted) -> bool:
        """Whether the streams have this event: as one, or as one for each of its sessions."""
        ids, known = event.session_ids, self._announced
        return known.get(ids[0]) == event.count or (event.count == len(ids) and all(one in known for one in ids))

    def _put(self, listener: EventListener, event: Event, number: int) -> None:
        # Thousands of sessions may get a new reason at once, which would flood the queues of streams.
        if isinstance(event, VerdictsChanged):
            listener.put_reasons(event, number)
        else:
            listener.put(event)

    def _dispatch(self, about: SessionId, event: Event) -> None:
        for listener in self._by_session.get(about, ()):
            listener.put(event)

    async def _receive_forever(self) -> None:
        """Receive from the bus; retry after failures."""
        while True:
            try:
                await self._receive()
            except Exception:
                _logger.exception("receiving from the event bus failed; retrying")
            # Events may have been lost meanwhile.
            self.dispatch(Delivery(lost=True))
            await self._clock.sleep(self._limits.recheck_s)

    async def _receive(self) -> None:
        # A separate group per process: each receives every event.
        subscription = await self._events.subscribe(group=self._ids.new("api"), consumer="api")
        try:
            while True:
                delivery = await subscription.receive(limit=RECEIVED_AT_ONCE, wait_s=RECEIVE_S)
                self.dispatch(delivery)
                await subscription.acknowledge(delivery)
        finally:
            with suppress(Exception):  # the bus may have been closed first
                await subscription.close()

    async def _tick(self) -> None:
        """One timer wakes all streams, which check their own deadlines."""
        while True:
            await self._clock.sleep(self._limits.recheck_s)
            for listener in self._holders:
                listener.woken.set()

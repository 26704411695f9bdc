"""Event bus within one process: a bounded backlog per group.

A group that falls behind loses its oldest events, so that memory is bounded; each of
its consumers gets one notification per loss.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from sokovan.adapters.inprocess.waiting import set_within
from sokovan.domain.events import Event
from sokovan.ports.environment import Clock
from sokovan.ports.events import BusUnavailable, Delivery, Subscription

BACKLOG_MAX = 10_000
REDELIVER_AFTER_S = 60.0


class Backlog:
    """Unacknowledged events of one group: waiting, or held by a consumer.

    Waiting and held events together are at most `size_max`; `losses` counts how often
    events were dropped.
    """

    def __init__(self, *, size_max: int) -> None:
        self.size_max = size_max
        self.losses = 0
        self.arrived = asyncio.Event()
        self._added = 0
        self._waiting: OrderedDict[int, Event] = OrderedDict()
        # By number, in order of delivery: the consumer, the redelivery time, and the event.
        self._held: OrderedDict[int, tuple[str, float, Event]] = OrderedDict()

    def add(self, events: Iterable[Event]) -> None:
        """Append events; drop the oldest beyond the bound."""
        for event in events:
            self._added += 1
            self._waiting[self._added] = event
        cut = len(self._waiting) + len(self._held) - self.size_max
        for _ in range(cut):
            # A held event was delivered, and only its redelivery is lost, so held events are dropped first.
            (self._held or self._waiting).popitem(last=False)
        self.losses += cut > 0
        self._signal()

    def interrupt(self) -> None:
        """Count a loss, and wake who waits for events."""
        self.losses += 1
        self.arrived.set()

    def deliver(self, consumer: str, *, limit: int, due_ms: float) -> dict[int, Event]:
        """Deliver up to `limit` waiting events to `consumer`."""
        taken = dict(islice(self._waiting.items(), max(limit, 0)))
        for number, event in taken.items():
            del self._waiting[number]
            self._held[number] = (consumer, due_ms, event)
        self._signal()
        return taken

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Remove these events."""
        for number in numbers:
            self._held.pop(number, None)
            self._waiting.pop(number, None)
        self._signal()

    def release_consumer(self, consumer: str) -> None:
        """Return the events held by `consumer` to the front of the queue."""
        self._return([number for number, (holder, _, _) in self._held.items() if holder == consumer])

    def release_overdue(self, now_ms: float) -> None:
        """Return events that were held for too long to the queue."""
        # The hold time is constant, so events become due in the order of delivery.
        overdue = takewhile(lambda held: held[1][1] <= now_ms, self._held.items())
        self._return([number for number, _ in overdue])

    def next_due_ms(self) -> float:
        """When the next held event becomes due; infinity if none is held."""
        return next((due_ms for _, due_ms, _ in self._held.values()), float("inf"))

    def _return(self, numbers: Sequence[int]) -> None:
        for number in sorted(numbers, reverse=True):
            _, _, event = self._held.pop(number)
            self._waiting[number] = event
            self._waiting.move_to_end(number, last=False)
        self._signal()

    def _signal(self) -> None:
        if self._waiting:
            self.arrived.set()
        else:
            self.arrived.clear()


class InProcessEventBus:
    """The EventBus port inside one process."""

    def __init__(
        self, clock: Clock, *, backlog_max: int = BACKLOG_MAX, redeliver_after_s: float = REDELIVER_AFTER_S
    ) -> None:
        self._clock = clock
        self._backlog_max = backlog_max
        self._redeliver_after_s = redeliver_after_s
        self._backlogs: dict[str, Backlog] = {}
        self._closed = False

    async def publish(self, events: Sequence[Event]) -> None:
        """Add the events to the backlog of each group."""
        if self._closed:
            raise BusUnavailable("the event bus of this process is closed")
        self.add(events)

    def add(self, events: Sequence[Event]) -> None:
        """Publish events, without waiting."""
        for backlog in self._backlogs.values():
            backlog.add(events)

    def interrupt(self) -> None:
        """Notify every group that events may have been lost."""
        for backlog in self._backlogs.values():
            backlog.interrupt()

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """Join `group`; a new group receives events published from now on."""
        backlog = self._backlogs.setdefault(group, Backlog(size_max=self._backlog_max))
        # Consumer names are unique, so a previous consumer of this name is gone.
        backlog.release_consumer(consumer)
        return InProcessSubscription(
            backlog, consumer, clock=self._clock, redeliver_after_ms=self._redeliver_after_s * 1000
        )

    async def close(self) -> None:
        """Refuse further events."""
        self._closed = True


class InProcessSubscription:
    """One consumer of a group."""

    def __init__(self, backlog: Backlog, consumer: str, *, clock: Clock, redeliver_after_ms: float) -> None:
        self._backlog = backlog
        self._consumer = consumer
        self._clock = clock
        self._redeliver_after_ms = redeliver_after_ms
        self._losses = backlog.losses
        self._closed = False

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """Up to `limit` events; waits at most `wait_s` for the first one."""
        until_ms = self._clock.monotonic_ms() + wait_s * 1000
        while True:
            delivery = self._delivery(limit)
            now_ms = self._clock.monotonic_ms()
            if delivery.events or delivery.lost or now_ms >= until_ms or limit < 1:
                return delivery
            seconds = (min(until_ms, self._backlog.next_due_ms()) - now_ms) / 1000
            if self._closed:
                await self._clock.sleep(seconds)
            else:
                await set_within(self._backlog.arrived, seconds, clock=self._clock)

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge events, so that they are not delivered again."""
        self._backlog.acknowledge(map(int, delivery.token))

    async def close(self) -> None:
        """Leave the group and release unacknowledged events to other consumers."""
        self._closed = True
        self._backlog.release_consumer(self._consumer)

    def _delivery(self, limit: int) -> Delivery:
        if self._closed:
            return Delivery()
        now_ms = self._clock.monotonic_ms()
        self._backlog.release_overdue(now_ms)
        events = self._backlog.deliver(self._consumer, limit=limit, due_ms=now_ms + self._redeliver_after_ms)
        lost, self._losses = self._losses != self._backlog.losses, self._backlog.losses
        return Delivery(events=tuple(events.values()), lost=lost, token=tuple(map(str, events)))

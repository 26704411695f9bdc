"""The event bus of one process: a bounded backlog per group.

A group that falls behind loses its oldest events, never more than its bound of
memory; each of its consumers is told once for every such loss.
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
    """What one group has not acknowledged: waiting for a consumer, or held by one.

    Waiting and held together are at most `size_max`; `losses` counts how often that
    cost an event.
    """

    def __init__(self, *, size_max: int) -> None:
        self.size_max = size_max
        self.losses = 0
        self.arrived = asyncio.Event()
        self._added = 0
        self._waiting: OrderedDict[int, Event] = OrderedDict()
        # By number, in order of hand-out: the consumer, when to give up on it, and the event.
        self._held: OrderedDict[int, tuple[str, float, Event]] = OrderedDict()

    def add(self, events: Iterable[Event]) -> None:
        """Append events; drop the oldest beyond the bound."""
        for event in events:
            self._added += 1
            self._waiting[self._added] = event
        cut = len(self._waiting) + len(self._held) - self.size_max
        for _ in range(cut):
            # What a consumer holds, it has seen: only its being given again is lost, so it goes first.
            (self._held or self._waiting).popitem(last=False)
        self.losses += cut > 0
        self._signal()

    def hand_out(self, consumer: str, *, limit: int, due_ms: float) -> dict[int, Event]:
        """Move up to `limit` events from waiting to held by `consumer`."""
        taken = dict(islice(self._waiting.items(), max(limit, 0)))
        for number, event in taken.items():
            del self._waiting[number]
            self._held[number] = (consumer, due_ms, event)
        self._signal()
        return taken

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Forget these."""
        for number in numbers:
            self._held.pop(number, None)
            self._waiting.pop(number, None)
        self._signal()

    def give_up_on(self, consumer: str) -> None:
        """What `consumer` holds waits again, before everything else."""
        self._return([number for number, (holder, _, _) in self._held.items() if holder == consumer])

    def give_up_before(self, now_ms: float) -> None:
        """What was held for too long waits again."""
        # Everything is held equally long, so the order of hand-out is the order of coming due.
        overdue = takewhile(lambda held: held[1][1] <= now_ms, self._held.items())
        self._return([number for number, _ in overdue])

    def next_due_ms(self) -> float:
        """When something held comes due; infinity if nothing is held."""
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
        """Hand the events on to every group."""
        if self._closed:
            raise BusUnavailable("the event bus of this process is closed")
        for backlog in self._backlogs.values():
            backlog.add(events)

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """A place in `group`; a new group begins with what is published from now on."""
        backlog = self._backlogs.setdefault(group, Backlog(size_max=self._backlog_max))
        # Whoever had this name before is gone: a consumer has its name to itself.
        backlog.give_up_on(consumer)
        return InProcessSubscription(
            backlog, consumer, clock=self._clock, redeliver_after_ms=self._redeliver_after_s * 1000
        )

    async def close(self) -> None:
        """Take no more events."""
        self._closed = True


class InProcessSubscription:
    """One consumer's place in a group of this process."""

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
        """These events need not come again."""
        self._backlog.acknowledge(map(int, delivery.token))

    async def close(self) -> None:
        """Give the place back, and with it what was not acknowledged."""
        self._closed = True
        self._backlog.give_up_on(self._consumer)

    def _delivery(self, limit: int) -> Delivery:
        if self._closed:
            return Delivery()
        now_ms = self._clock.monotonic_ms()
        self._backlog.give_up_before(now_ms)
        events = self._backlog.hand_out(self._consumer, limit=limit, due_ms=now_ms + self._redeliver_after_ms)
        lost, self._losses = self._losses != self._backlog.losses, self._backlog.losses
        return Delivery(events=tuple(events.values()), lost=lost, token=tuple(map(str, events)))

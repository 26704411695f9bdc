"""Event bus on a Valkey stream with consumer groups.

The stream is bounded. Lost events are detected exactly: each group stores the number
of entries it has read, in the same atomic step in which it reads (see
`scripts.RECEIVE`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from sokovan.adapters.valkey.connection import DEADLINE_S, RETRY_S_MIN, Argument, Link
from sokovan.adapters.valkey.scripts import RECEIVE, RELEASE
from sokovan.domain.events import Event, event_from_plain, event_to_plain
from sokovan.domain.plain_values import InvalidDocument
from sokovan.ports.events import BusUnavailable, Delivery, Subscription

BACKLOG_MAX = 100_000
REDELIVER_AFTER_S = 60.0
# A waiting consumer polls at this interval, for entries of dead consumers and for a recreated stream.
POLL_S = 1.0
PUBLISH_AT_ONCE = 200
FIELD = b"event"


def encoded(event: Event) -> bytes:
    """The stored form of an event."""
    return msgspec.json.encode(event_to_plain(event))


def decoded(body: bytes) -> Event | None:
    """Decode a stream entry; None if it cannot be decoded."""
    try:
        value = msgspec.json.decode(body)
        return event_from_plain(value) if isinstance(value, dict) else None
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidDocument):
        return None


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Keys and names of a consumer, and the idle time before redelivery."""

    stream: str
    state: str
    group: str
    consumer: str
    redeliver_after_ms: int


class ValkeyEventBus:
    """The EventBus port on Valkey."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "sokovan",
        backlog_max: int = BACKLOG_MAX,
        redeliver_after_s: float = REDELIVER_AFTER_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._url = url
        self._stream = f"{prefix}:events"
        self._backlog_max = backlog_max
        self._redeliver_after_ms = round(redeliver_after_s * 1000)
        self._deadline_s = deadline_s
        self._link = Link(url, deadline_s=deadline_s)
        self._subscriptions: list[ValkeySubscription] = []

    async def publish(self, events: Sequence[Event]) -> None:
        """Append to the stream; the oldest entries beyond the bound are trimmed."""
        add = ("XADD", self._stream, "MAXLEN", "~", self._backlog_max, "*", FIELD)
        for start in range(0, len(events), PUBLISH_AT_ONCE):
            await self._link.call_all([(*add, encoded(event)) for event in events[start : start + PUBLISH_AT_ONCE]])

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """Join `group`; a new group receives events published from now on."""
        position = StreamPosition(self._stream, f"{self._stream}:{group}", group, consumer, self._redeliver_after_ms)
        subscription = ValkeySubscription(Link(self._url, deadline_s=self._deadline_s), position)
        await subscription.join()
        self._subscriptions = [*(known for known in self._subscriptions if not known.closed), subscription]
        return subscription

    async def close(self) -> None:
        """Close all connections."""
        for subscription in self._subscriptions:
            await subscription.disconnect()
        await self._link.close()


class ValkeySubscription:
    """One consumer of a group of the stream, with its own connection."""

    def __init__(self, link: Link, position: StreamPosition) -> None:
        self._link = link
        self._position = position
        self._epoch: bytes | None = None
        self._lost = False
        self._last_id = "0-0"
        self._added = 0
        self._claim_from = "0-0"
        # Unacknowledged entries of an earlier process of this consumer, or of a lost reply, are read again first.
        self._own_from = "0"

    @property
    def closed(self) -> bool:
        """Whether the subscription is closed."""
        return self._link.closed

    async def join(self) -> None:
        """Create the group if it is missing; records a loss if the bus is unavailable."""
        try:
            await self._receive(limit=0, missing_begins="$")
        except BusUnavailable:
            self._lost = True

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """Up to `limit` events; waits at most `wait_s` for the first one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            delivery = await self._delivery(limit)
            left_s = until - loop.time()
            if delivery.events or delivery.lost or left_s <= 0 or limit < 1:
                return delivery
            await self._arrival(min(left_s, POLL_S))

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge events; if the bus is unavailable, they are delivered again."""
        if delivery.token:
            with suppress(BusUnavailable):
                await self._link.call("XACK", self._position.stream, self._position.group, *delivery.token)

    async def close(self) -> None:
        """Leave the group and release unacknowledged events to other consumers."""
        with suppress(BusUnavailable):
            await self._link.run(RELEASE, [self._position.stream], [self._position.group, self._position.consumer])
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connection without leaving the group."""
        await self._link.close()

    async def _delivery(self, limit: int) -> Delivery:
        try:
            events = await self._readable(await self._receive(limit=limit, missing_begins="0"))
        except BusUnavailable:
            self._lost, self._own_from = True, "0"
            return Delivery()
        except asyncio.CancelledError:
            # The server may have delivered entries whose reply was lost.
            self._own_from = "0"
            raise
        lost, self._lost = self._lost, False
        return Delivery(events=tuple(events.values()), lost=lost, token=tuple(events))

    async def _readable(self, entries: Mapping[str, bytes]) -> dict[str, Event]:
        """Decode entries; one that cannot be decoded is dropped and counts as lost."""
        events = {entry_id: decoded(body) for entry_id, body in entries.items()}
        unreadable = tuple(entry_id for entry_id, event in events.items() if event is None)
        if unreadable:
            self._lost = True
            await self.acknowledge(Delivery(token=unreadable))
        return {entry_id: event for entry_id, event in events.items() if event is not None}

    async def _receive(self, *, limit: int, missing_begins: str) -> dict[str, bytes]:
        """Read entries by id, and record whether some were lost. Raises BusUnavailable."""
        position = self._position
        who: list[Argument] = [position.group, position.consumer, limit, position.redeliver_after_ms]
        where = [self._claim_from, self._own_from, missing_begins]
        reply = await self._link.run(RECEIVE, [position.stream, position.state], [*who, *where, uuid.uuid4().hex])
        epoch, lost, again, own, new, claim_from, last_id, added = reply
        self._lost |= bool(lost) or self._epoch not in {None, epoch} or added < self._added
        self._epoch, self._added = epoch, added
        self._claim_from, self._last_id = claim_from.decode(), last_id.decode()
        if limit > 0 and self._own_from:
            self._own_from = own[-1][0].decode() if own else ""
        return _bodies([*again, *own, *new])

    async def _arrival(self, wait_s: float) -> None:
        """Wait until an entry is added to the stream, for any consumer."""
        block_ms = max(1, round(wait_s * 1000))
        try:
            await self._link.call(
                "XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", self._position.stream, self._last_id, wait_s=wait_s
            )
        except BusUnavailable:
            self._lost = True
            await asyncio.sleep(min(wait_s, max(self._link.retry_in_s, RETRY_S_MIN)))


def _bodies(entries: Iterable[Any]) -> dict[str, bytes]:
    """The bodies of entries by id; empty for one that was trimmed while pending."""
    found = {}
    for entry_id, fields in entries:
        pairs = dict(zip(fields[::2], fields[1::2], strict=True)) if fields else {}
        found[entry_id.decode()] = pairs.get(FIELD, b"")
    return found

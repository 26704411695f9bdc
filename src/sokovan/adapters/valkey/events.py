"""The event bus on a Valkey stream with consumer groups.

The stream is bounded. Whether a group has missed something is not guessed: each
group keeps count of what it has read beside the stream, in the same step in which
it reads (see `scripts.RECEIVE`).
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
# A consumer that waits looks again this often, for what another one left and for a stream that was made anew.
LOOK_AGAIN_S = 1.0
PUBLISH_AT_ONCE = 200
FIELD = b"event"


def encoded(event: Event) -> bytes:
    """An event as the stream holds it."""
    return msgspec.json.encode(event_to_plain(event))


def decoded(body: bytes) -> Event | None:
    """The event of a stream's entry, None if it cannot be read."""
    try:
        value = msgspec.json.decode(body)
        return event_from_plain(value) if isinstance(value, dict) else None
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidDocument):
        return None


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a consumer stands: keys, names, and when others are given up."""

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
        """Append to the stream; its oldest entries beyond the bound go."""
        add = ("XADD", self._stream, "MAXLEN", "~", self._backlog_max, "*", FIELD)
        for start in range(0, len(events), PUBLISH_AT_ONCE):
            await self._link.call_all([(*add, encoded(event)) for event in events[start : start + PUBLISH_AT_ONCE]])

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """A place in `group`; a new group begins with what is published from now on."""
        place = StreamPosition(self._stream, f"{self._stream}:{group}", group, consumer, self._redeliver_after_ms)
        subscription = ValkeySubscription(Link(self._url, deadline_s=self._deadline_s), place)
        await subscription.join()
        self._subscriptions = [*(known for known in self._subscriptions if not known.closed), subscription]
        return subscription

    async def close(self) -> None:
        """Let go of connections."""
        for subscription in self._subscriptions:
            await subscription.disconnect()
        await self._link.close()


class ValkeySubscription:
    """One consumer's place in a group of the stream, on a connection of its own."""

    def __init__(self, link: Link, place: StreamPosition) -> None:
        self._link = link
        self._place = place
        self._epoch: bytes | None = None
        self._lost = False
        self._last_id = "0-0"
        self._added = 0
        self._claim_from = "0-0"
        # What an earlier life of this consumer left, or a reply that never arrived, is read again first.
        self._own_from = "0"

    @property
    def closed(self) -> bool:
        """Whether the place was given back."""
        return self._link.closed

    async def join(self) -> None:
        """Make the group if there is none; note a loss if the bus is away."""
        try:
            await self._look(limit=0, missing_begins="$")
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
            await self._arrival(min(left_s, LOOK_AGAIN_S))

    async def acknowledge(self, delivery: Delivery) -> None:
        """These events need not come again; if the bus is away, they do."""
        if delivery.token:
            with suppress(BusUnavailable):
                await self._link.call("XACK", self._place.stream, self._place.group, *delivery.token)

    async def close(self) -> None:
        """Give the place back, and with it what was not acknowledged."""
        with suppress(BusUnavailable):
            await self._link.run(RELEASE, [self._place.stream], [self._place.group, self._place.consumer])
        await self.disconnect()

    async def disconnect(self) -> None:
        """Let go of the connection without giving the place back."""
        await self._link.close()

    async def _delivery(self, limit: int) -> Delivery:
        try:
            events = await self._readable(await self._look(limit=limit, missing_begins="0"))
        except BusUnavailable:
            self._lost, self._own_from = True, "0"
            return Delivery()
        except asyncio.CancelledError:
            # The server may have handed out what nobody here has seen.
            self._own_from = "0"
            raise
        lost, self._lost = self._lost, False
        return Delivery(events=tuple(events.values()), lost=lost, token=tuple(events))

    async def _readable(self, entries: Mapping[str, bytes]) -> dict[str, Event]:
        """The events of the entries; one that cannot be read is dropped and counts as lost."""
        events = {entry_id: decoded(body) for entry_id, body in entries.items()}
        unreadable = tuple(entry_id for entry_id, event in events.items() if event is None)
        if unreadable:
            self._lost = True
            await self.acknowledge(Delivery(token=unreadable))
        return {entry_id: event for entry_id, event in events.items() if event is not None}

    async def _look(self, *, limit: int, missing_begins: str) -> dict[str, bytes]:
        """Take what is there, by id; notes whether something was missed. Raises BusUnavailable."""
        place = self._place
        who: list[Argument] = [place.group, place.consumer, limit, place.redeliver_after_ms]
        where = [self._claim_from, self._own_from, missing_begins]
        reply = await self._link.run(RECEIVE, [place.stream, place.state], [*who, *where, uuid.uuid4().hex])
        epoch, lost, again, own, new, claim_from, last_id, added = reply
        self._lost |= bool(lost) or self._epoch not in {None, epoch} or added < self._added
        self._epoch, self._added = epoch, added
        self._claim_from, self._last_id = claim_from.decode(), last_id.decode()
        if limit > 0 and self._own_from:
            self._own_from = own[-1][0].decode() if own else ""
        return _bodies([*again, *own, *new])

    async def _arrival(self, wait_s: float) -> None:
        """Wait for an entry after the last one that was seen; whose it will be is seen later."""
        block_ms = max(1, round(wait_s * 1000))
        try:
            await self._link.call(
                "XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", self._place.stream, self._last_id, wait_s=wait_s
            )
        except BusUnavailable:
            self._lost = True
            await asyncio.sleep(min(wait_s, max(self._link.retry_in_s, RETRY_S_MIN)))


def _bodies(entries: Iterable[Any]) -> dict[str, bytes]:
    """What entries hold, by id; empty for one that was trimmed while it was held."""
    found = {}
    for entry_id, fields in entries:
        pairs = dict(zip(fields[::2], fields[1::2], strict=True)) if fields else {}
        found[entry_id.decode()] = pairs.get(FIELD, b"")
    return found

"""Events of several processes: each process gets every event.

A group of consumers is in one process. An event that is too large for a message,
or that was sent while the connection was lost, counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from sokovan.adapters.broadcast.link import PAYLOAD_BYTES_MAX, BroadcastLink
from sokovan.domain.events import Event, event_from_plain, event_to_plain
from sokovan.domain.plain_values import InvalidDocument
from sokovan.ports.events import EventBus, Subscription

CHANNEL = "sokovan_events"
# Stands for an event that was not sent.
LOST = ""


class ProcessEvents(EventBus, Protocol):
    """The event bus of one process."""

    def add(self, events: Sequence[Event]) -> None:
        """Publish events, without waiting."""

    def interrupt(self) -> None:
        """Notify every group that events may have been lost."""


class BroadcastEvents:
    """The EventBus port: published events reach the bus of every process."""

    def __init__(self, local: ProcessEvents, link: BroadcastLink) -> None:
        self._local, self._link = local, link
        link.listen(CHANNEL, self._received, local.interrupt)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send the events to all processes. Raises BusUnavailable."""
        await self._link.notify(CHANNEL, list(payloads(events)))
        # Its own messages are not received.
        self._local.add(events)

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """Join `group` of this process."""
        return await self._local.subscribe(group=group, consumer=consumer)

    async def close(self) -> None:
        """Refuse further events."""
        await self._local.close()

    def _received(self, payload: str) -> None:
        if payload == LOST:
            self._local.interrupt()
        else:
            self._local.add(decoded(payload))


def payloads(events: Sequence[Event]) -> Iterator[str]:
    """The messages for events, as few as fit; LOST for one that is too large."""
    kept: list[str] = []
    size = 0
    for event in events:
        content = msgspec.json.encode(event_to_plain(event))
        if kept and size + len(content) + len(kept) > PAYLOAD_BYTES_MAX - 2:
            yield f"[{','.join(kept)}]"
            kept, size = [], 0
        if len(content) > PAYLOAD_BYTES_MAX - 2:
            yield LOST
            continue
        kept.append(content.decode())
        size += len(content)
    if kept:
        yield f"[{','.join(kept)}]"


def decoded(payload: str) -> list[Event]:
    """The events of a message; what cannot be decoded is left out."""
    try:
        values = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return []
    found: list[Event] = []
    for value in values if isinstance(values, list) else ():
        with suppress(InvalidDocument):
            if isinstance(value, dict):
                found.append(event_from_plain(value))
    return found

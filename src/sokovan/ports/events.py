"""The event bus: hints that something changed, never the only copy of a fact.

Any event may be lost, repeated, late or out of order. A consumer of an event reads the
store; after `lost` it reads everything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.errors import SokovanError
from sokovan.domain.events import Event


class BusUnavailable(SokovanError):
    """The event bus does not answer; the store has every fact."""

    code = "bus-unavailable"
    hint = "nothing is lost: the long cycle continues the work; restore the bus for quick reactions"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch of events for one consumer.

    `lost` means that events may be missing before these (the backlog was cut, the bus was
    flushed or restarted): read the store again. `token` is opaque, for `acknowledge`.
    """

    events: tuple[Event, ...] = ()
    lost: bool = False
    token: tuple[str, ...] = ()


class Subscription(Protocol):
    """One consumer of a group."""

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """Up to `limit` events; waits at most `wait_s` for the first one.

        An unreachable bus is not an error here: the delivery is empty, and the first one
        after the bus is back has `lost` set.
        """

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge these events; others are delivered again."""

    async def close(self) -> None:
        """Leave the group; unacknowledged events go to another consumer."""


class EventBus(Protocol):
    """Publishes to every group; inside a group, each event goes to one consumer."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Publish the events. Raises BusUnavailable; some may have been published then."""

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """Join `group`; a new group receives events published from now on.

        Never raises BusUnavailable: a subscription made while the bus is unreachable
        begins with `lost`.
        """

    async def close(self) -> None:
        """Close connections."""

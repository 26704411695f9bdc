"""The event bus: hints that something changed, never the only copy of a fact.

Any event may be lost, repeated, late or out of order. Whoever hears one reads
the store; whoever hears `lost` reads all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.errors import SokovanError
from sokovan.domain.events import Event


class BusUnavailable(SokovanError):
    """The event bus does not answer; facts are safe in the store."""

    code = "bus-unavailable"
    hint = "nothing is lost: work goes on by the long cycle; bring the bus back for quick reactions"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Some events for one consumer.

    `lost` says that events may be missing before these (the backlog was cut, the
    bus was flushed or restarted): read the store afresh. `token` is what
    `acknowledge` needs; its form is the adapter's own.
    """

    events: tuple[Event, ...] = ()
    lost: bool = False
    token: tuple[str, ...] = ()


class Subscription(Protocol):
    """One consumer's place in the stream of its group."""

    async def receive(self, *, limit: int, wait_s: float) -> Delivery:
        """Up to `limit` events; waits at most `wait_s` for the first one.

        An unanswering bus is not an error here: the delivery is empty, and the first
        one after the bus is back says `lost`.
        """

    async def acknowledge(self, delivery: Delivery) -> None:
        """These events need not come again. What is never acknowledged is given again."""

    async def close(self) -> None:
        """Give the place back; what was not acknowledged goes to another consumer."""


class EventBus(Protocol):
    """Publishes to every group; inside a group, each event goes to one consumer."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Hand the events on. Raises BusUnavailable, and then some may have gone out."""

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        """A place in `group`; a new group begins with what is published from now on.

        Never raises BusUnavailable: a subscription made while the bus is away begins
        with `lost`.
        """

    async def close(self) -> None:
        """Let go of connections."""

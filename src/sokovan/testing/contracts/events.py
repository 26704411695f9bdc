"""The promises of `ports.events.EventBus` and its subscriptions.

The subject makes buses that keep about `BACKLOG_MAX` events for a group and give up
on a silent consumer after `REDELIVER_AFTER_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from sokovan.domain.events import AgentEnrolled, Event, NoticeIssued, SessionMoved
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.events import Delivery, EventBus, Subscription
from sokovan.testing.clock import outcome, until
from sokovan.testing.contracts import Subject, expect

BusSubject: TypeAlias = Subject[EventBus]
BACKLOG_MAX = 200
REDELIVER_AFTER_S = 1.0
# A stream may be cut in blocks, so that it holds somewhat more than its bound.
SLACK = 200
AT_ONCE = 100
LONG_S = 30.0
SHORT_S = 0.2
BRIEF_S = 0.02


def notices(count: int, *, first: int = 0) -> list[Event]:
    """Events that can be told apart, numbered from `first`."""
    return [NoticeIssued(at_ms=first + number, topic="contract", about="test") for number in range(count)]


async def received(
    subscription: Subscription, subject: BusSubject, *, limit: int = AT_ONCE, wait_s: float = SHORT_S
) -> Delivery:
    """One delivery, while time passes for the wait."""
    return await outcome(subscription.receive(limit=limit, wait_s=wait_s), elapse=subject.elapse)


async def drained(subscription: Subscription, subject: BusSubject) -> list[Delivery]:
    """Everything that is there, acknowledged."""
    deliveries: list[Delivery] = []
    while True:
        delivery = await received(subscription, subject, wait_s=BRIEF_S)
        if not delivery.events and not delivery.lost:
            return deliveries
        await subscription.acknowledge(delivery)
        deliveries.append(delivery)


def events_of(deliveries: Sequence[Delivery]) -> list[Event]:
    """The events of several deliveries, one after the other."""
    return [event for delivery in deliveries for event in delivery.events]


async def an_event_reaches_every_group(subject: BusSubject) -> None:
    """Each group has its own copy of the stream."""
    bus, publisher = await subject.make(), await subject.make()
    places = [await bus.subscribe(group=group, consumer="m1") for group in ("schedulers", "dashboards")]
    await publisher.publish(notices(3))
    for place in places:
        expect(events_of(await drained(place, subject)) == notices(3), "a group did not get what was published")


async def an_event_arrives_as_it_was_sent(subject: BusSubject) -> None:
    """Every field survives."""
    sent: list[Event] = [
        SessionMoved(
            at_ms=7,
            session_id=SessionId("s1"),
            before=SessionStatus.PENDING,
            after=SessionStatus.SCHEDULED,
            trigger="allocated",
        ),
        AgentEnrolled(at_ms=8, agent_id=AgentId("a1"), incarnation=2),
        NoticeIssued(at_ms=9, topic="price", about="s1", body={"näme": "välue\n\x00"}),
    ]
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(sent)
    expect(events_of(await drained(place, subject)) == sent, "an event was changed on its way")


async def inside_a_group_each_event_goes_to_one_consumer(subject: BusSubject) -> None:
    """Consumers share the work."""
    buses = [await subject.make(), await subject.make()]
    places = [await bus.subscribe(group="schedulers", consumer=f"m{at}") for at, bus in enumerate(buses)]
    await buses[0].publish(notices(10))
    first = await received(places[0], subject, limit=4)
    second = await received(places[1], subject)
    expect(len(first.events) == 4, "a consumer did not get as many events as it asked for")
    expect(sorted([*first.events, *second.events], key=lambda event: event.at_ms) == notices(10), "events are missing")
    expect(not first.lost and not second.lost, "an undisturbed bus says that something was lost")


async def a_new_group_begins_with_what_comes_next(subject: BusSubject) -> None:
    """Nothing from before the first subscription."""
    bus = await subject.make()
    await bus.publish(notices(3))
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(2, first=3))
    expect(events_of(await drained(place, subject)) == notices(2, first=3), "a new group got something old")


async def a_group_goes_on_where_it_stopped(subject: BusSubject) -> None:
    """What is published while no consumer is there waits for the next one."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await place.close()
    await bus.publish(notices(3))
    successor = await bus.subscribe(group="schedulers", consumer="m2")
    deliveries = await drained(successor, subject)
    expect(events_of(deliveries) == notices(3), "events from between two consumers are missing")
    expect(not any(delivery.lost for delivery in deliveries), "a short absence counts as a loss")


async def a_delivery_is_no_longer_than_asked_for(subject: BusSubject) -> None:
    """`limit` is kept."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(10))
    for _ in range(4):
        expect(len((await received(place, subject, limit=3)).events) <= 3, "a delivery has more events than its limit")


async def a_consumer_that_waits_is_woken(subject: BusSubject) -> None:
    """The first event ends the wait, long before its time is over."""
    bus, publisher = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    waiting = asyncio.ensure_future(place.receive(limit=AT_ONCE, wait_s=1000 * LONG_S))
    await subject.elapse(SHORT_S)
    expect(not waiting.done(), "the wait ended without an event")
    await publisher.publish(notices(1))
    expect((await outcome(waiting, elapse=subject.elapse)).events == tuple(notices(1)), "the wait did not end well")


async def a_quiet_bus_gives_an_empty_delivery(subject: BusSubject) -> None:
    """After the time, without events and without a loss."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish([])
    expect(await received(place, subject) == Delivery(), "a quiet bus gave something")


async def what_was_acknowledged_does_not_come_again(subject: BusSubject) -> None:
    """Neither to its consumer nor to its successor; acknowledging twice is no error."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(3))
    delivery = await received(place, subject)
    await place.acknowledge(delivery)
    await place.acknowledge(delivery)
    await subject.elapse(2 * REDELIVER_AFTER_S)
    expect(await received(place, subject) == Delivery(), "an acknowledged event came again")
    await place.close()
    successor = await bus.subscribe(group="schedulers", consumer="m2")
    expect(await received(successor, subject) == Delivery(), "an acknowledged event came to another consumer")


async def what_a_closed_consumer_held_goes_to_another(subject: BusSubject) -> None:
    """At once, and only what was not acknowledged."""
    bus, other = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    heir = await other.subscribe(group="schedulers", consumer="m2")
    await bus.publish(notices(5))
    await place.acknowledge(await received(place, subject, limit=2))
    await received(place, subject)
    await place.close()
    delivery = await received(heir, subject)
    expect(list(delivery.events) == notices(3, first=2), "the heir did not get exactly what was left")


async def what_a_silent_consumer_held_goes_to_another(subject: BusSubject) -> None:
    """A consumer that died without a word costs a delay, no event."""
    bus, other = await subject.make(), await subject.make()
    silent = await bus.subscribe(group="schedulers", consumer="m1")
    heir = await other.subscribe(group="schedulers", consumer="m2")
    await bus.publish(notices(3))
    await received(silent, subject)
    expect(await received(heir, subject) == Delivery(), "an event was given twice while its consumer worked on it")
    inherited: list[Event] = []

    async def is_complete() -> bool:
        inherited.extend((await received(heir, subject)).events)
        return len(inherited) >= 3

    await until(is_complete, elapse=subject.elapse)
    expect(inherited == notices(3), "the heir did not get what the silent consumer held")


async def a_consumer_that_comes_back_gets_what_it_held(subject: BusSubject) -> None:
    """A restart under the same name needs no waiting for its own events."""
    bus, after_restart = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(5))
    await place.acknowledge(await received(place, subject, limit=1))
    await received(place, subject, limit=2)
    again = await after_restart.subscribe(group="schedulers", consumer="m1")
    expect(events_of(await drained(again, subject)) == notices(4, first=1), "a restarted consumer misses its events")


async def a_receive_that_is_given_up_loses_nothing(subject: BusSubject) -> None:
    """Cancelling at any moment leaves the events for the next call."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    given_up = asyncio.ensure_future(place.receive(limit=AT_ONCE, wait_s=LONG_S))
    await subject.elapse(SHORT_S)
    await bus.publish(notices(3))
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    expect(events_of(await drained(place, subject)) == notices(3), "a receive that was given up took events with it")


async def a_slow_group_is_cut_told_once_and_goes_on(subject: BusSubject) -> None:
    """Bounded memory: the oldest go, the newest stay, the consumer reads the store."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    sent = notices(5 * BACKLOG_MAX)
    await bus.publish(sent)
    deliveries = await drained(place, subject)
    events = events_of(deliveries)
    expect(len(events) <= BACKLOG_MAX + SLACK, f"{len(events)} events were kept for a slow group")
    expect(events == sent[-len(events) :], "not the newest events were kept")
    expect([delivery.lost for delivery in deliveries].count(True) == 1, "the loss was not told exactly once")
    expect(deliveries[0].lost, "the loss was not told first")
    await bus.publish(notices(2))
    expect(events_of(await drained(place, subject)) == notices(2), "a slow group does not go on after its loss")


async def every_consumer_of_a_cut_group_is_told(subject: BusSubject) -> None:
    """Each has its own part of the world to read afresh."""
    buses = [await subject.make(), await subject.make()]
    places = [await bus.subscribe(group="schedulers", consumer=f"m{at}") for at, bus in enumerate(buses)]
    await buses[0].publish(notices(5 * BACKLOG_MAX))
    for place in places:
        deliveries = await drained(place, subject)
        expect([delivery.lost for delivery in deliveries].count(True) == 1, "a consumer was not told once of the loss")


async def a_slow_group_costs_a_quick_one_nothing(subject: BusSubject) -> None:
    """Who keeps up is told of no loss."""
    bus = await subject.make()
    await bus.subscribe(group="dashboards", consumer="m1")
    quick = await bus.subscribe(group="schedulers", consumer="m1")
    deliveries = []
    for first in range(0, 5 * BACKLOG_MAX, AT_ONCE):
        await bus.publish(notices(AT_ONCE, first=first))
        deliveries += await drained(quick, subject)
    expect(events_of(deliveries) == notices(5 * BACKLOG_MAX), "a group that kept up misses events")
    expect(not any(delivery.lost for delivery in deliveries), "a group that kept up was told of a loss")


CHECKS = (
    an_event_reaches_every_group,
    an_event_arrives_as_it_was_sent,
    inside_a_group_each_event_goes_to_one_consumer,
    a_new_group_begins_with_what_comes_next,
    a_group_goes_on_where_it_stopped,
    a_delivery_is_no_longer_than_asked_for,
    a_consumer_that_waits_is_woken,
    a_quiet_bus_gives_an_empty_delivery,
    what_was_acknowledged_does_not_come_again,
    what_a_closed_consumer_held_goes_to_another,
    what_a_silent_consumer_held_goes_to_another,
    a_consumer_that_comes_back_gets_what_it_held,
    a_receive_that_is_given_up_loses_nothing,
    a_slow_group_is_cut_told_once_and_goes_on,
    every_consumer_of_a_cut_group_is_told,
    a_slow_group_costs_a_quick_one_nothing,
)

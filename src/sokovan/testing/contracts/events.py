"""Contract of `ports.events.EventBus` and its subscriptions.

The subject creates buses that keep about `BACKLOG_MAX` events for a group, and
redeliver events of a silent consumer after `REDELIVER_AFTER_S`.
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
# A stream may be trimmed in blocks, so that it keeps somewhat more than its bound.
SLACK = 200
AT_ONCE = 100
LONG_S = 30.0
SHORT_S = 0.2
BRIEF_S = 0.02


def notices(count: int, *, first: int = 0) -> list[Event]:
    """Distinct events, numbered from `first`."""
    return [NoticeIssued(at_ms=first + number, topic="contract", about="test") for number in range(count)]


async def received(
    subscription: Subscription, subject: BusSubject, *, limit: int = AT_ONCE, wait_s: float = SHORT_S
) -> Delivery:
    """One delivery, while time passes."""
    return await outcome(subscription.receive(limit=limit, wait_s=wait_s), elapse=subject.elapse)


async def drained(subscription: Subscription, subject: BusSubject) -> list[Delivery]:
    """Receive and acknowledge all available events."""
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
    """All fields are preserved."""
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
    """Consumers share the events."""
    buses = [await subject.make(), await subject.make()]
    places = [await bus.subscribe(group="schedulers", consumer=f"m{at}") for at, bus in enumerate(buses)]
    await buses[0].publish(notices(10))
    now = asyncio.get_running_loop().time
    begun = now()
    first = await received(places[0], subject, limit=4)
    second = await received(places[1], subject)
    # A busy machine may take so long that the second gets the events of the first as well.
    theirs = (
        list(second.events)
        if now() - begun < REDELIVER_AFTER_S
        else [one for one in second.events if one not in first.events]
    )
    expect(len(first.events) == 4, "a consumer did not get the requested number of events")
    expect(sorted([*first.events, *theirs], key=lambda event: event.at_ms) == notices(10), "events are missing")
    expect(not first.lost and not second.lost, "a healthy bus reports a loss")


async def a_new_group_receives_only_later_events(subject: BusSubject) -> None:
    """Nothing from before the first subscription."""
    bus = await subject.make()
    await bus.publish(notices(3))
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(2, first=3))
    expect(events_of(await drained(place, subject)) == notices(2, first=3), "a new group got something old")


async def a_group_continues_where_it_stopped(subject: BusSubject) -> None:
    """Events published without a consumer wait for the next one."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await place.close()
    await bus.publish(notices(3))
    successor = await bus.subscribe(group="schedulers", consumer="m2")
    deliveries = await drained(successor, subject)
    expect(events_of(deliveries) == notices(3), "events published without a consumer are missing")
    expect(not any(delivery.lost for delivery in deliveries), "a short absence counts as a loss")


async def a_delivery_respects_its_limit(subject: BusSubject) -> None:
    """At most `limit` events."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(10))
    for _ in range(4):
        expect(len((await received(place, subject, limit=3)).events) <= 3, "a delivery has more events than its limit")


async def a_consumer_that_waits_is_woken(subject: BusSubject) -> None:
    """The first event ends the wait early."""
    bus, publisher = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    waiting = asyncio.ensure_future(place.receive(limit=AT_ONCE, wait_s=1000 * LONG_S))
    await subject.elapse(SHORT_S)
    expect(not waiting.done(), "the wait ended without an event")
    await publisher.publish(notices(1))
    expect((await outcome(waiting, elapse=subject.elapse)).events == tuple(notices(1)), "the wait failed")


async def a_quiet_bus_gives_an_empty_delivery(subject: BusSubject) -> None:
    """After the timeout, without events and without a loss."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish([])
    expect(await received(place, subject) == Delivery(), "a quiet bus gave something")


async def acknowledged_events_are_not_redelivered(subject: BusSubject) -> None:
    """Neither to the same consumer nor to another; acknowledging twice is no error."""
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


async def events_of_a_closed_consumer_go_to_another(subject: BusSubject) -> None:
    """At once, and only unacknowledged ones."""
    bus, other = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    other_consumer = await other.subscribe(group="schedulers", consumer="m2")
    await bus.publish(notices(5))
    await place.acknowledge(await received(place, subject, limit=2))
    await received(place, subject)
    await place.close()
    delivery = await received(other_consumer, subject)
    expect(list(delivery.events) == notices(3, first=2), "unacknowledged events were not delivered")


async def events_of_a_dead_consumer_go_to_another(subject: BusSubject) -> None:
    """A dead consumer causes a delay, but no loss."""
    bus, other = await subject.make(), await subject.make()
    silent = await bus.subscribe(group="schedulers", consumer="m1")
    other_consumer = await other.subscribe(group="schedulers", consumer="m2")
    await bus.publish(notices(3))
    now = asyncio.get_running_loop().time
    begun = now()
    await received(silent, subject)
    early = await received(other_consumer, subject)
    # A busy machine may take that long to look.
    looked_late = now() - begun >= REDELIVER_AFTER_S
    expect(early == Delivery() or looked_late, "an event was redelivered too early")
    redelivered: list[Event] = list(early.events)

    async def is_complete() -> bool:
        redelivered.extend((await received(other_consumer, subject)).events)
        return len(redelivered) >= 3

    await until(is_complete, elapse=subject.elapse)
    expect(redelivered == notices(3), "the other consumer did not get the events of the dead one")


async def a_restarted_consumer_gets_its_events_again(subject: BusSubject) -> None:
    """Without waiting, under the same name."""
    bus, after_restart = await subject.make(), await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(5))
    await place.acknowledge(await received(place, subject, limit=1))
    await received(place, subject, limit=2)
    again = await after_restart.subscribe(group="schedulers", consumer="m1")
    expect(events_of(await drained(again, subject)) == notices(4, first=1), "a restarted consumer misses its events")


async def a_cancelled_receive_loses_nothing(subject: BusSubject) -> None:
    """The events remain for the next call."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    given_up = asyncio.ensure_future(place.receive(limit=AT_ONCE, wait_s=LONG_S))
    await subject.elapse(SHORT_S)
    await bus.publish(notices(3))
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    expect(events_of(await drained(place, subject)) == notices(3), "a cancelled receive lost events")


async def a_slow_group_is_trimmed_notified_once_and_continues(subject: BusSubject) -> None:
    """Memory is bounded: the oldest events are dropped."""
    bus = await subject.make()
    place = await bus.subscribe(group="schedulers", consumer="m1")
    sent = notices(5 * BACKLOG_MAX)
    await bus.publish(sent)
    deliveries = await drained(place, subject)
    events = events_of(deliveries)
    expect(len(events) <= BACKLOG_MAX + SLACK, f"{len(events)} events were kept for a slow group")
    expect(events == sent[-len(events) :], "not the newest events were kept")
    expect([delivery.lost for delivery in deliveries].count(True) == 1, "the loss was not reported exactly once")
    expect(deliveries[0].lost, "the loss was not reported first")
    await bus.publish(notices(2))
    expect(events_of(await drained(place, subject)) == notices(2), "a slow group does not continue after its loss")


async def every_consumer_of_a_trimmed_group_is_notified(subject: BusSubject) -> None:
    """Each has its own state to refresh."""
    buses = [await subject.make(), await subject.make()]
    places = [await bus.subscribe(group="schedulers", consumer=f"m{at}") for at, bus in enumerate(buses)]
    await buses[0].publish(notices(5 * BACKLOG_MAX))
    for place in places:
        deliveries = await drained(place, subject)
        expect([delivery.lost for delivery in deliveries].count(True) == 1, "a consumer was not notified once")


async def a_slow_group_does_not_affect_a_fast_one(subject: BusSubject) -> None:
    """A group that keeps up is not notified of a loss."""
    bus = await subject.make()
    await bus.subscribe(group="dashboards", consumer="m1")
    quick = await bus.subscribe(group="schedulers", consumer="m1")
    deliveries = []
    for first in range(0, 5 * BACKLOG_MAX, AT_ONCE):
        await bus.publish(notices(AT_ONCE, first=first))
        deliveries += await drained(quick, subject)
    expect(events_of(deliveries) == notices(5 * BACKLOG_MAX), "a group that kept up misses events")
    expect(not any(delivery.lost for delivery in deliveries), "a group that kept up was notified of a loss")


CHECKS = (
    an_event_reaches_every_group,
    an_event_arrives_as_it_was_sent,
    inside_a_group_each_event_goes_to_one_consumer,
    a_new_group_receives_only_later_events,
    a_group_continues_where_it_stopped,
    a_delivery_respects_its_limit,
    a_consumer_that_waits_is_woken,
    a_quiet_bus_gives_an_empty_delivery,
    acknowledged_events_are_not_redelivered,
    events_of_a_closed_consumer_go_to_another,
    events_of_a_dead_consumer_go_to_another,
    a_restarted_consumer_gets_its_events_again,
    a_cancelled_receive_loses_nothing,
    a_slow_group_is_trimmed_notified_once_and_continues,
    every_consumer_of_a_trimmed_group_is_notified,
    a_slow_group_does_not_affect_a_fast_one,
)

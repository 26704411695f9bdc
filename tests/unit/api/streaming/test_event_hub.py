"""One event bus subscription, shared by every stream of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.local.ids import SortableIds
from sokovan.api.errors import StreamsFull
from sokovan.api.settings import StreamLimits
from sokovan.api.streaming import event_hub
from sokovan.api.streaming.event_hub import NO_EVENTS, EventHub, EventListener
from sokovan.domain.arrays import read_array
from sokovan.domain.events import AgentEnrolled, Event, KernelMoved, SessionMoved, SessionsSubmitted, VerdictsChanged
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.events import Delivery, Subscription
from sokovan.testing.clock import VirtualClock
from tests.unit.orchestrator.sessions.controller_harness import controller_harness

S1, S2 = SessionId("s1"), SessionId("s2")
ENROLLED = AgentEnrolled(at_ms=0, agent_id=AgentId("a"), incarnation=1)


def moved(session_id: SessionId) -> Event:
    return SessionMoved(
        at_ms=0, session_id=session_id, before=SessionStatus.PENDING, after=SessionStatus.SCHEDULED, trigger="allocated"
    )


def hub_on(clock: VirtualClock, bus: InProcessEventBus | None = None, **limits: int) -> EventHub:
    return EventHub(bus or InProcessEventBus(clock), clock=clock, ids=SortableIds(clock), limits=StreamLimits(**limits))


def test_all_but_moves_of_kernels_is_urgent() -> None:
    started = KernelMoved(
        at_ms=0,
        kernel_id=KernelId("k1"),
        session_id=S1,
        before=KernelStatus.CREATING,
        after=KernelStatus.RUNNING,
        trigger="started",
    )
    hub = hub_on(VirtualClock())
    with hub.listening("k", S1) as one:
        hub.dispatch(Delivery((started,)))
        assert (one.has_events, one.is_urgent) == (True, False)
        hub.dispatch(Delivery((moved(S1), started)))
        assert one.is_urgent
        one.take()
        assert (one.has_events, one.is_urgent) == (False, False)
        hub.dispatch(Delivery(lost=True))
        assert one.is_urgent


def test_a_bell_is_woken_by_its_kinds_of_events_and_by_losses_and_is_no_stream() -> None:
    hub = hub_on(VirtualClock(), streams_max=1)
    with hub.noticing(AgentEnrolled) as bell, hub.listening("k", NO_EVENTS) as silent:
        hub.dispatch(Delivery(events=(moved(S1),)))
        assert not bell.woken.is_set()
        hub.dispatch(Delivery(events=(ENROLLED,)))
        assert bell.woken.is_set()
        assert bell.take()[0] == []
        bell.woken.clear()
        assert not silent.woken.is_set()
        hub.dispatch(Delivery(lost=True))
        assert bell.woken.is_set()
    bell.woken.clear()
    hub.dispatch(Delivery(events=(ENROLLED,)))
    assert not bell.woken.is_set()


def test_a_listener_of_a_session_hears_of_it_alone() -> None:
    hub = hub_on(VirtualClock())
    with hub.listening("k", S1) as one, hub.listening("k", S2) as other, hub.listening("k") as all_of_it:
        hub.dispatch(Delivery(events=(moved(S1), ENROLLED)))
        assert (one.has_events, other.has_events) == (True, False)
        assert all_of_it.take() == ([moved(S1), ENROLLED], False)
        assert one.take() == ([], False)
        assert not one.has_events


def test_a_new_reason_wakes_who_watches_one_of_the_sessions_and_does_not_drown_the_rest() -> None:
    hub = hub_on(VirtualClock())
    waiting = tuple(SessionId(f"w{number}") for number in range(100))
    with hub.listening("k", waiting[99]) as one, hub.listening("k", S1) as other, hub.listening("k") as all_of_it:
        hub.dispatch(Delivery(events=(VerdictsChanged(at_ms=0, session_ids=waiting, code="NEVER_FITS"),)))
        assert (one.has_events, other.has_events, all_of_it.has_events) == (True, False, False)
        assert all_of_it.woken.is_set()
        assert list(all_of_it.take_reasons()) == list(waiting)
        assert all_of_it.take_reasons() == {}


def test_a_session_has_its_last_reason_and_too_many_of_them_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_hub, "REASONS_MAX", 3)
    listener = EventListener(None, queue_max=2)
    for code in ("HELD", "NEVER_FITS"):
        listener.put_reasons(VerdictsChanged(at_ms=0, session_ids=(S1,), code=code))
    assert [event.code for event in listener.take_reasons().values()] == ["NEVER_FITS"]
    listener.put_reasons(VerdictsChanged(at_ms=0, session_ids=tuple(map(SessionId, "abcd")), code="HELD"))
    assert listener.take_reasons() == {}
    assert listener.take() == ([], True)


def test_a_slow_listener_loses_events_and_is_notified_once() -> None:
    listener = EventListener(None, queue_max=2)
    for session_id in (S1, S2, S1, S2):
        listener.put(moved(session_id))
    events, lost = listener.take()
    assert lost
    assert len(events) <= 2
    assert listener.take() == ([], False)


def test_events_lost_by_the_bus_are_reported_to_every_listener() -> None:
    hub = hub_on(VirtualClock())
    with hub.listening("k", S1) as one, hub.listening("k") as all_of_it:
        hub.dispatch(Delivery(lost=True))
        assert one.has_events
        assert one.take()[1]
        assert all_of_it.take() == ([], True)


def test_a_stream_is_resumed_with_what_it_missed_and_no_event_twice() -> None:
    hub = hub_on(VirtualClock())
    hub.dispatch(Delivery(events=(moved(S1),)))
    place = hub.recent.place(hub.recent.number)
    waiting = VerdictsChanged(at_ms=0, session_ids=(S2,), code="HELD")
    hub.dispatch(Delivery(events=(moved(S2), waiting)))
    with hub.listening("k") as one:
        hub.dispatch(Delivery(events=(ENROLLED,)))
        hub.resume(one, place)
        assert one.take() == ([moved(S2), ENROLLED], False)
        # The reason waits to be sent, so the stream has everything before it only.
        assert one.complete_to(hub.recent.number) == 2
        assert list(one.take_reasons()) == [S2]
        assert one.complete_to(hub.recent.number) == 4


def test_a_stream_from_an_unknown_place_has_missed_something() -> None:
    hub = hub_on(VirtualClock())
    place = hub.recent.place(hub.recent.number)
    hub.dispatch(Delivery(lost=True))
    with hub.listening("k") as one:
        hub.resume(one, place)
        assert one.take() == ([], True)


def test_streams_are_counted_by_user_and_in_all_and_given_back() -> None:
    hub = hub_on(VirtualClock(), streams_max=3, streams_per_user_max=2)
    with hub.listening("a"), hub.listening("a", S1):
        with pytest.raises(StreamsFull):
            hub.require_room("a")
        with hub.listening("b"), pytest.raises(StreamsFull), hub.listening("c"):
            pass
    hub.require_room("a")


async def elapsed(clock: VirtualClock, holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        await clock.advance(0.1)
    raise AssertionError("did not come true")


async def test_while_running_it_receives_events_and_wakes_listeners_periodically() -> None:
    clock = VirtualClock()
    bus = InProcessEventBus(clock)
    hub = hub_on(clock, bus)
    async with hub.running():
        with hub.listening("k", S1) as one:
            await clock.advance(0)
            await bus.publish([moved(S1)])
            await elapsed(clock, lambda: one.has_events)
            one.woken.clear()
            await elapsed(clock, one.woken.is_set)


async def test_two_processes_hear_everything_each() -> None:
    clock = VirtualClock()
    bus = InProcessEventBus(clock)
    first, second = hub_on(clock, bus), hub_on(clock, bus)
    async with first.running(), second.running():
        with first.listening("k") as one, second.listening("k") as other:
            await clock.advance(0)
            await bus.publish([moved(S1)])
            await elapsed(clock, lambda: one.has_events and other.has_events)


class FailingBus(InProcessEventBus):
    """A bus that cannot be subscribed to at first."""

    failures = 2

    async def subscribe(self, *, group: str, consumer: str) -> Subscription:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no bus")
        return await super().subscribe(group=group, consumer=consumer)


async def test_an_ear_that_failed_listens_again_and_says_that_it_missed_something() -> None:
    clock = VirtualClock()
    bus = FailingBus(clock)
    hub = hub_on(clock, bus)
    with hub.listening("k") as one:
        async with hub.running():
            await elapsed(clock, lambda: one.has_events)
            assert one.take() == ([], True)
            await elapsed(clock, lambda: bus.failures == 0)
            await clock.advance(2)
            one.take()
            await bus.publish([ENROLLED])
            await elapsed(clock, lambda: one.has_events)
            assert one.take() == ([ENROLLED], False)


async def test_a_hub_that_closes_wakes_every_stream() -> None:
    hub = hub_on(VirtualClock())
    with hub.listening("k") as one:
        waiting: Awaitable[bool] = asyncio.ensure_future(one.woken.wait())
        hub.close()
        assert await waiting
        assert hub.closing


def submitted(*ids: SessionId, count: int = 0) -> SessionsSubmitted:
    return SessionsSubmitted(at_ms=0, session_ids=ids, count=count or len(ids))


@pytest.mark.slow
async def test_what_was_announced_is_not_told_again_when_the_bus_has_it() -> None:
    hub = hub_on(VirtualClock())
    async with controller_harness() as on:
        one, two, first = await on.submit(), await on.submit(), await on.submit(array=read_array("0-6"))
    with hub.listening("k") as all_of_it, hub.listening("k", one.session_id) as watching:
        for session in (one, two, first):
            hub.announce([session])
        assert len(all_of_it.take()[0]) == 3
        assert watching.has_events
        # The sessions of some requests are stored together, and an array is named by more than its first.
        together = submitted(one.session_id, two.session_id)
        array = submitted(first.session_id, SessionId("second"), count=7)
        hub.dispatch(Delivery(events=(together, array)))
        assert all_of_it.take() == ([], False)
        other = submitted(one.session_id, SessionId("of-another-process"))
        hub.dispatch(Delivery(events=(other,)))
        assert all_of_it.take() == ([other], False)


@pytest.mark.slow
async def test_announced_sessions_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_hub, "ANNOUNCED_MAX", 1)
    hub = hub_on(VirtualClock())
    async with controller_harness() as on:
        one, two = await on.submit(), await on.submit()
    hub.announce([one])
    hub.announce([two])
    with hub.listening("k") as all_of_it:
        hub.dispatch(Delivery(events=(submitted(one.session_id), submitted(two.session_id))))
        assert all_of_it.take() == ([submitted(one.session_id)], False)

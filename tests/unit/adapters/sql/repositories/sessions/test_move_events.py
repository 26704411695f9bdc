"""Many kernels that move alike are one event."""

from __future__ import annotations

import pytest

from sokovan.adapters.broadcast.events import decoded, payloads
from sokovan.adapters.sql.repositories.sessions.move_events import MANY, NAMED_MAX, MoveEvents
from sokovan.domain.events import Event, KernelMoved, KernelsMoved, SessionMoved
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SessionStatus

_K, _T = KernelStatus, KernelTrigger


def started(moved: MoveEvents, count: int, *, session: str = "s") -> list[KernelId]:
    """The kernels of a session that all start."""
    kernels = [KernelId(f"{session}.{index}") for index in range(count)]
    for kernel in kernels:
        moved.add_kernel(SessionId(session), kernel, before=_K.CREATING, after=_K.RUNNING, trigger=_T.STARTED)
    return kernels


def kernels_in(events: list[Event]) -> list[KernelId]:
    """The kernels that the events name, in order."""
    return [
        kernel
        for event in events
        if isinstance(event, KernelMoved | KernelsMoved)
        for kernel in ([event.kernel_id] if isinstance(event, KernelMoved) else event.kernel_ids)
    ]


@pytest.mark.parametrize("count", [1, MANY - 1, MANY, NAMED_MAX, NAMED_MAX + 1, 10_000])
def test_each_kernel_is_named_once_and_events_grow_by_the_hundred(count: int) -> None:
    moved = MoveEvents(7)
    kernels = started(moved, count)
    events = list(moved.events())
    assert kernels_in(events) == kernels
    assert len(events) == (count if count < MANY else -(-count // NAMED_MAX))
    assert {event.at_ms for event in events} == {7}


def test_what_moves_otherwise_is_another_event_and_the_order_stays() -> None:
    moved = MoveEvents(0)
    first = started(moved, MANY)
    last = SessionMoved(
        at_ms=0,
        session_id=SessionId("s"),
        before=SessionStatus.CREATING,
        after=SessionStatus.RUNNING,
        trigger="started",
    )
    moved.add(last)
    second = started(moved, MANY, session="other")
    for kernel in second:
        moved.add_kernel(SessionId("other"), kernel, before=_K.RUNNING, after=_K.TERMINATING, trigger=_T.EXITED)
    events = list(moved.events())
    assert [type(event) for event in events] == [KernelsMoved, SessionMoved, KernelsMoved, KernelsMoved]
    assert kernels_in(events) == [*first, *second, *second]
    assert events[1] is last


def test_an_event_of_many_kernels_is_the_same_as_one_for_each() -> None:
    moved = MoveEvents(3)
    kernels = started(moved, MANY)
    [event] = moved.events()
    assert isinstance(event, KernelsMoved)
    assert list(event.each()) == [
        KernelMoved(
            at_ms=3,
            kernel_id=kernel,
            session_id=SessionId("s"),
            before=_K.CREATING,
            after=_K.RUNNING,
            trigger="started",
        )
        for kernel in kernels
    ]


def test_an_event_with_the_longest_names_fits_into_a_message_between_managers() -> None:
    moved = MoveEvents(1_700_000_000_000)
    for index in range(NAMED_MAX):
        kernel = KernelId(f"{'k' * 40}.{index}")
        moved.add_kernel(
            SessionId("s" * 40), kernel, before=_K.TERMINATING, after=_K.TERMINATED, trigger=_T.PREPARATION_STARTED
        )
    events = list(moved.events())
    assert [event for payload in payloads(events) for event in decoded(payload)] == events

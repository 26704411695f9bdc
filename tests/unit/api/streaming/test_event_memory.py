"""The last events of this process, numbered."""

from __future__ import annotations

import pytest

from sokovan.api.streaming import event_memory
from sokovan.api.streaming.event_memory import RecentEvents
from sokovan.domain.events import AgentEnrolled, Event, KernelsMoved, VerdictsChanged
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus


def enrolled(number: int) -> Event:
    return AgentEnrolled(at_ms=0, agent_id=AgentId(f"a{number}"), incarnation=1)


def test_what_came_after_a_place_is_known_as_long_as_it_is_kept() -> None:
    recent = RecentEvents("p", most=3)
    for number in range(5):
        recent.add(enrolled(number))
    assert recent.since(recent.place(5)) == []
    assert recent.since(recent.place(3)) == [enrolled(3), enrolled(4)]
    assert recent.since(recent.place(2)) == [enrolled(2), enrolled(3), enrolled(4)]
    assert recent.since(recent.place(1)) is None


@pytest.mark.parametrize("place", ["", "p", "q.1", "p.", "p.2", "p.-1", "p.x", "p.\u0661", "p.1.1", "p." + "9" * 90])
def test_places_of_others_and_of_the_future_are_unknown(place: str) -> None:
    recent = RecentEvents("p", most=3)
    recent.add(enrolled(1))
    assert recent.since(place) is None


def test_after_a_loss_no_earlier_place_is_known() -> None:
    recent = RecentEvents("p", most=3)
    recent.add(enrolled(1))
    before = recent.place(recent.number)
    recent.forget()
    assert recent.since(before) is None
    assert recent.since(recent.place(recent.number)) == []


def test_events_that_name_many_sessions_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_memory, "NAMED_MAX", 5)
    recent = RecentEvents("p", most=100)
    sessions = tuple(map(SessionId, "abc"))
    for code in ("HELD", "NEVER_FITS"):
        recent.add(VerdictsChanged(at_ms=0, session_ids=sessions, code=code))
    assert recent.since(recent.place(0)) is None
    assert len(recent.since(recent.place(1)) or ()) == 1


def test_events_that_name_many_kernels_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_memory, "NAMED_MAX", 5)
    recent = RecentEvents("p", most=100)
    for session in "ab":
        recent.add(
            KernelsMoved(
                at_ms=0,
                kernel_ids=tuple(map(KernelId, "klm")),
                session_id=SessionId(session),
                before=KernelStatus.CREATING,
                after=KernelStatus.RUNNING,
                trigger="started",
            )
        )
    assert recent.since(recent.place(0)) is None
    assert len(recent.since(recent.place(1)) or ()) == 1

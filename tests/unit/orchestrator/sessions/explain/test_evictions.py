"""Evictions are explained to those who lost kernels, and before they happen."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_REMOVED, ROOM_FREED, TOOK_ROOM, Checkpoint
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, HistoryEntry, SessionRecord
from sokovan.orchestrator.sessions.explain.evictions import (
    booking_of,
    departure_checks,
    eviction_checks,
    planned_evictions,
    shown_victims,
    taken_checks,
    taker_of,
)
from sokovan.orchestrator.sessions.explain.explanations import PlannedVictim
from sokovan.scheduling.engine.timing.booking_evictions import departure
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.testing.simple_work import work_spec
from tests.unit.domain.lifecycle.test_eviction import receipt
from tests.unit.scheduling.engine.evictions.takers import runs

NOTICE = receipt(1_000_000)
PENDING = SessionRecord(
    SessionId("s"), work_spec("s", owner=Owner(user="alice")), SessionStatus.PENDING, 1, Goal.RUN, 0, (),
    evictions=(NOTICE,),
)  # fmt: skip


def test_a_notice_says_for_whom_and_that_it_is_under_way() -> None:
    [check] = eviction_checks(replace(PENDING, status=SessionStatus.TERMINATING), now_ms=1_000_100)
    assert check.detail == "preempt took all its kernels for taker; they have not ended yet"


def test_the_receipt_says_what_was_lost_and_how_long_it_waits() -> None:
    ended = replace(PENDING, evictions=(NOTICE.ended(1_005_000, Checkpoint(1_004_000, 7)),))
    lost, waits = eviction_checks(ended, now_ms=1_010_000)
    assert lost.detail.endswith("; 2 slot seconds of work since the checkpoint of step 7 were lost")
    assert (waits.result, waits.detail) == ("no", "it waits 20s more before it is tried again")
    assert len(eviction_checks(ended, now_ms=1_030_000)) == 1


def test_a_session_of_another_user_is_not_named() -> None:
    [check, _] = eviction_checks(replace(PENDING, evictions=(replace(NOTICE, for_user="bob"),)), now_ms=1_000_000)
    assert "for a session of another user;" in check.detail


def test_a_taker_of_the_same_user_is_called_by_its_name() -> None:
    named = replace(NOTICE, for_name="urgent")
    [check, _] = eviction_checks(replace(PENDING, evictions=(named,)), now_ms=1_000_000)
    assert "for urgent;" in check.detail
    [hidden, _] = eviction_checks(replace(PENDING, evictions=(replace(named, for_user="bob"),)), now_ms=1_000_000)
    assert "urgent" not in hidden.detail


def test_a_booking_is_named_to_everyone_and_waited_for_until_it_is_removed() -> None:
    receipts = (replace(NOTICE, for_booking="demo", for_user="", action="booking").ended(1_005_000, None),)
    evicted = replace(PENDING, evictions=receipts)
    assert (taker_of(evicted), booking_of(evicted)) == ((), "demo")
    told, waits = eviction_checks(evicted, now_ms=1_010_000)
    assert told.detail.startswith("booking took all its kernels for booking demo; ")
    assert waits.result == "no"
    _, back = eviction_checks(evicted, now_ms=1_010_000, taker=BOOKING_REMOVED)
    assert back.detail == "the booking it was evicted for does not need its room: it waits no longer"


def test_a_running_session_is_told_when_it_leaves_for_a_booking() -> None:
    booking = Booking("demo", 60_000, 120_000, agents=("a", "b"), users=("u",))
    running = runs("s", "a", "b", grace_ms=10_000)
    leaves = departure(running, booking, booking.agents, 0)
    assert leaves is not None
    [check] = departure_checks([leaves])
    assert check.detail == (
        "2 kernels on a, b make room for booking demo, with notice at 1970-01-01T00:00:45Z, unless it has ended before"
    )


def test_victims_that_are_visible_are_named_and_others_are_not() -> None:
    victims = [
        PlannedVictim(session=one, user="u", action="preempt", kernels=1, whole=True, lost_s=0)
        for one in ("s-1", "s-2")
    ]
    shown = shown_victims(victims, {SessionId("s-1"): "low"})
    assert [(one.session, one.name) for one in shown] == [("s-1", "low"), ("", "")]


def test_a_plan_says_how_many_would_be_evicted() -> None:
    evictions = [
        Eviction(KernelId(f"{name}.0"), SessionId(name), AgentId("a"), SessionId("s"), "preempt", 60)
        for name in ("x", "y")
    ]
    plan = SchedulingPlan(evictions=tuple(evictions))
    [check] = planned_evictions(plan, "s")
    assert check.detail == "preempt would take 2 kernels of 2 sessions, which would lose 120 slot seconds of work"
    assert planned_evictions(plan, "x") == ()


def test_a_taker_sees_what_was_taken_for_it_and_what_that_cost() -> None:
    changes = [Change("x", Cause.COORDINATOR, code, code) for code in (TOOK_ROOM, "other", ROOM_FREED)]
    history = [HistoryEntry(number, "pending", "pending", "", one, 0, 0, 1) for number, one in enumerate(changes)]
    assert [check.detail for check in taken_checks(history)] == [TOOK_ROOM, ROOM_FREED]


def test_a_taker_of_many_victims_sees_the_last_and_how_many_there_were() -> None:
    changes = [Change("x", Cause.COORDINATOR, ROOM_FREED, f"victim {number}") for number in range(14)]
    changes.insert(0, Change("x", Cause.COORDINATOR, TOOK_ROOM, "14 kernels are evicted for it"))
    history = [HistoryEntry(number, "pending", "pending", "", one, 0, 0, 1) for number, one in enumerate(changes)]
    choice, *others, last = taken_checks(history)
    assert choice.detail == "14 kernels are evicted for it"
    assert [check.detail for check in others] == [f"victim {number}" for number in range(2, 14)]
    assert last.detail == "2 more notes are in its history"

"""Evictions are explained to those who lost kernels, and before they happen."""

from __future__ import annotations

from dataclasses import replace

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import ROOM_FREED, TOOK_ROOM, Checkpoint
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import Change, HistoryEntry, SessionRecord
from sokovan.orchestrator.sessions.explain.evictions import (
    eviction_checks,
    planned_evictions,
    shown_victims,
    taken_checks,
)
from sokovan.orchestrator.sessions.explain.explanations import PlannedVictim
from sokovan.scheduling.plan import Eviction, SchedulingPlan
from sokovan.testing.simple_work import work_spec
from tests.unit.domain.lifecycle.test_eviction import receipt

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
    assert (waits.result, waits.detail) == ("no", "it waits 20 s more before it is tried again")
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
    history = [HistoryEntry(number, "pending", "pending", "", one, 0, 0, 1) for number, one in enumerate(changes)]
    first, *others = taken_checks(history)
    assert first.detail == "2 earlier notes are in its history"
    assert [check.detail for check in others] == [f"victim {number}" for number in range(2, 14)]

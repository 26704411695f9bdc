"""Evictions for bookings: who leaves booked agents, when, and who stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.ids import QueueName
from sokovan.domain.lifecycle.eviction import BOOKING, BOOKING_LEAD_MS
from sokovan.domain.session import SessionType
from sokovan.scheduling.engine.evictions.rules import EvictionOptions
from sokovan.scheduling.engine.timing.booking_evictions import evictions_for_bookings, gone_by
from sokovan.scheduling.engine.timing.calendar import LENT_MIN_MS
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, kernel, session, verdict_of, where

HOUR, GRACE = 3_600_000, 10_000
# The times of the notices of sessions with this grace, and with none.
DUE, LAST = HOUR - GRACE - BOOKING_LEAD_MS, HOUR - BOOKING_LEAD_MS


def booked(*sessions: SessionWorkload, now_ms: int = LAST, **more: Any) -> SystemSnapshot:
    """Agents of which `a` is booked from the first hour to the second."""
    given = {"name": "demo", "from_ms": HOUR, "to_ms": 2 * HOUR, "agents": ("a",), **more.pop("booking", {})}
    return cluster(*sessions, bookings=(Booking(**given),), now_ms=now_ms, **more)


def leaves(snapshot: SystemSnapshot) -> list[str]:
    """The kernels that a cycle evicts for bookings."""
    plan = schedule(snapshot, SchedulingProfile())
    assert all(one.action == BOOKING and one.for_session == "" for one in plan.evictions)
    return sorted(str(one.kernel_id) for one in plan.evictions)


def test_a_session_leaves_so_that_its_whole_grace_is_over_when_the_booking_begins() -> None:
    one = runs("s", "a", grace_ms=GRACE, running_since_ms=DUE - 60_000)
    assert leaves(booked(one, now_ms=DUE - 1)) == []
    assert evictions_for_bookings(booked(one, now_ms=DUE - 1)).next_ms == DUE
    [eviction] = schedule(booked(one, now_ms=DUE), SchedulingProfile()).evictions
    assert (eviction.for_booking, eviction.rule, eviction.notice_ms, eviction.lost_s) == ("demo", BOOKING, GRACE, 60)
    assert leaves(booked(one, now_ms=HOUR + 1, booking={"release_unused_s": 600})) == ["s.0"]


def test_only_what_would_be_on_its_agents_and_does_not_use_it_leaves() -> None:
    ends_in_time = runs("t", "a", time_limit_ms=HOUR - LAST, running_since_ms=LAST)
    uses_it = runs("u", "a", booking="demo")
    elsewhere = runs("e", "b")
    assert leaves(booked(ends_in_time, uses_it, elsewhere, cpu=2)) == []
    assert leaves(booked(replace(ends_in_time, running_since_ms=LAST + 1), cpu=2)) == ["t.0"]


@pytest.mark.parametrize("more", [{"preemptible": False}, {"session_type": SessionType.SYSTEM}])
def test_what_may_not_be_evicted_stays(more: dict[str, Any]) -> None:
    assert leaves(booked(runs("s", "a", **more))) == []


def test_run_times_budgets_and_actions_protect_nothing_from_a_booking() -> None:
    young = runs("s", "a", running_since_ms=LAST, user="ann")
    queue = Queue(QueueName("default"), min_runtime_s=1_000_000)
    options = EvictionOptions(evictions_per_cycle=0, owner_budget=0)
    snapshot = booked(young, queues=(queue,), evicted_lately={"ann": 1_000})
    for actions in (("allocate",), ("allocate", "preempt", "reclaim")):
        plan = schedule(snapshot, SchedulingProfile(actions=actions, eviction_options=options))
        assert [one.kernel_id for one in plan.evictions] == ["s.0"]


def test_a_gang_goes_on_elsewhere_with_its_minimum_and_leaves_whole_without() -> None:
    gang = runs("g", "a", "b", "c", min_kernels=2)
    assert leaves(booked(gang)) == ["g.0"]
    assert leaves(booked(replace(gang, min_kernels=3))) == ["g.0", "g.1", "g.2"]
    # The others cannot go on without one that leads.
    first, *others = gang.kernels
    assert len(leaves(booked(replace(gang, kernels=(replace(first, leads=True), *others))))) == 3


def test_a_gang_that_would_have_to_leave_whole_stays_with_a_kernel_that_may_not_be_evicted() -> None:
    fixed = kernel("g.1", on="b", preemptible=False)
    gang = session("g", kernel("g.0", on="a"), fixed)
    assert leaves(booked(gang)) == []
    assert leaves(booked(replace(gang, min_kernels=1))) == ["g.0"]


def test_what_is_starting_leaves_whole() -> None:
    assert leaves(booked(runs("s", "a", "b", min_kernels=1, starting=True))) == ["s.0", "s.1"]


def test_a_session_on_agents_of_two_bookings_leaves_for_the_first_one() -> None:
    bookings = (
        Booking("later", HOUR + 1_000, 2 * HOUR, agents=("a", "b"), users=("u",)),
        Booking("sooner", HOUR, 2 * HOUR, agents=("a",), users=("u",)),
    )
    plan = schedule(cluster(runs("s", "a", "b", grace_ms=GRACE), bookings=bookings, now_ms=DUE), SchedulingProfile())
    assert {(one.kernel_id, one.for_booking) for one in plan.evictions} == {("s.0", "sooner"), ("s.1", "sooner")}


def test_nothing_leaves_for_a_booking_that_was_given_up_or_has_ended() -> None:
    one = runs("s", "a")
    assert leaves(booked(one, now_ms=HOUR + 600_000)) == []
    assert leaves(booked(one, now_ms=2 * HOUR)) == []
    maintenance = {"kind": BookingKind.MAINTENANCE}
    assert leaves(booked(one, now_ms=HOUR + 600_000, booking=maintenance)) == ["s.0"]


def test_a_booked_hypernode_is_left_by_all_below_it() -> None:
    nodes = (HyperNode("rack", 1, ("a", "b")), HyperNode("other", 1, ("c",)))
    given = {"agents": (), "hypernode": "rack"}
    assert leaves(booked(runs("s", "b"), runs("t", "c"), hypernodes=nodes, agents=("a",), booking=given)) == ["s.0"]


def test_what_another_session_evicts_in_the_cycle_is_not_evicted_twice() -> None:
    taker = session("taker", "cpu=1", priority=9, time_limit_ms=1)
    snapshot = booked(runs("s", "a", grace_ms=GRACE), taker, queues=(Queue(QueueName("default"), min_runtime_s=0),))
    plan = schedule(snapshot, SchedulingProfile(queue_policy="capacity", actions=("allocate", "preempt")))
    assert [one.for_session for one in plan.evictions] == ["taker"]


def test_it_is_told_by_when_a_session_is_gone() -> None:
    one = runs("s", "a", grace_ms=GRACE)
    assert gone_by(one, {"a"}, 0) == (GRACE + BOOKING_LEAD_MS, True)
    assert gone_by(one, {"b"}, 0) == (None, False)
    assert gone_by(replace(one, preemptible=False), {"a"}, 0) == (None, False)
    assert gone_by(replace(one, time_limit_ms=1, running_since_ms=0), {"a"}, 0) == (GRACE + 1, False)


def lent(now_ms: int, return_s: int | None = 10, **more: Any) -> dict[str, str]:
    """The place of a session that borrows."""
    given = {"borrow": True, "grace_ms": GRACE, **more}
    return where(decide(booked(session("s", **given), agents=("a",), now_ms=now_ms, booking={"return_s": return_s})))


def test_before_it_begins_a_booking_is_lent_to_sessions_that_are_gone_in_time() -> None:
    last = DUE - LENT_MIN_MS
    assert lent(last) == {"s.0": "a"}
    assert lent(last + 1) == {}
    assert lent(last, return_s=None) == {}
    assert lent(last, return_s=9) == {}
    assert lent(last, preemptible=False) == {}
    assert lent(last, borrow=False) == {}
    assert lent(HOUR + 1) == {}


def test_the_verdict_of_a_borrower_names_the_booking_that_evicts_it() -> None:
    borrower = session("s", borrow=True, grace_ms=GRACE)
    plan = decide(booked(borrower, agents=("a",), now_ms=0, booking={"return_s": 10}))
    told = "placed on a, lent by booking demo, which begins in 1h and evicts it before"
    assert verdict_of(plan, "s").summary == told

"""Calendar: room that is held from a time on, and bookings."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.cluster.topology import HyperNode
from sokovan.scheduling.engine.timing.calendar import BOOKING_BLOCKS_MAX, blocks_of
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Advice, Code, Verdict
from tests.unit.scheduling.engine.evictions.takers import cluster, runs
from tests.unit.scheduling.little_cluster import decide, session, verdict_of, where

HOUR = 3_600_000


def booked(*sessions: SessionWorkload, agents: tuple[str, ...] = ("a",), **more: Any) -> SchedulingPlan:
    given = {"name": "demo", "from_ms": HOUR, "to_ms": 2 * HOUR, "agents": ("a",), **more.pop("booking", {})}
    return decide(cluster(*sessions, agents=agents, bookings=(Booking(**given),), **more))


def test_without_limits_and_bookings_nothing_is_held() -> None:
    assert blocks_of(cluster(session("s")), 8) == 0
    assert blocks_of(cluster(session("s", time_limit_ms=1)), 8) == 8
    assert blocks_of(cluster(session("s", booking="demo")), 8) == 8


def test_a_session_whose_booking_is_gone_waits_also_if_nothing_is_held_for_others() -> None:
    plan = schedule(cluster(session("s", booking="gone")), SchedulingProfile(reserve_depth=0))
    assert plan.placements == ()
    assert verdict_of(plan, "s").code is Code.BOOKING_INVALID


def test_a_session_that_ends_before_a_booking_uses_its_agents() -> None:
    assert where(booked(session("s", time_limit_ms=HOUR))) == {"s.0": "a"}
    plan = booked(session("s", time_limit_ms=HOUR, grace_ms=1))
    assert where(plan) == {}
    assert verdict_of(plan, "s").code is Code.RESERVED
    assert "the room for cpu=1 on a is booked by demo in 1h, and it would not end by then" in (
        verdict_of(plan, "s").summary
    )


def test_a_session_without_a_limit_waits_for_the_end_of_a_booking() -> None:
    plan = booked(session("s"))
    [reservation] = plan.reservations
    assert (reservation.agents, reservation.starts_ms) == (("a",), 2 * HOUR)


def test_only_sessions_that_name_a_booking_use_it_and_only_there() -> None:
    booking = {"users": ("ann",), "from_ms": 0}
    plan = booked(
        session("hers", user="ann", booking="demo"), session("another", user="ann"), agents=("a", "b"), booking=booking
    )
    assert where(plan) == {"hers.0": "a", "another.0": "b"}
    full = booked(runs("other", "a"), session("hers", user="ann", booking="demo"), agents=("a", "b"), booking=booking)
    assert where(full) == {}


def test_no_start_is_promised_after_the_end_of_the_booking_that_a_session_names() -> None:
    own = Booking(name="own", from_ms=0, to_ms=HOUR, agents=("a",), users=("ann",), release_unused_s=3600)
    bookings = (own, Booking(name="later", from_ms=2 * HOUR, to_ms=3 * HOUR, agents=("a", "b"), users=("bob",)))
    waits = session("s", user="ann", booking="own")
    plan = decide(cluster(waits, agents=("a", "b"), bookings=bookings))
    assert (plan.placements, plan.reservations) == ((), ())
    checks = {check.name: check.detail for check in verdict_of(plan, "s").checks}
    assert "1 agent that could hold it is booked by later" in checks["bookings"]


def test_a_session_may_not_use_a_booking_before_it_begins_or_without_permission() -> None:
    early = verdict_of(booked(session("s", user="ann", booking="demo"), booking={"users": ("ann",)}), "s")
    assert (early.code, early.summary) == (Code.NOT_YET_BEGIN, "its booking demo begins in 1h")
    other = verdict_of(booked(session("s", booking="demo"), booking={"users": ("ann",)}), "s")
    assert (other.code, other.summary) == (Code.BOOKING_INVALID, "its booking demo does not permit its owner or queue")
    none = verdict_of(booked(session("s", booking="nothing")), "s")
    assert (none.code, none.summary) == (Code.BOOKING_INVALID, "its booking nothing does not exist, or has ended")


def in_booking(*slots: str, booking: dict[str, Any] | None = None, **more: Any) -> Verdict:
    """The verdict on a session in a booking of two of three agents of 2 cpu."""
    given = {"users": ("ann",), "agents": ("a", "b"), **(booking or {})}
    asked = session("s", *slots, user="ann", booking="demo", **more.pop("of_session", {}))
    return verdict_of(booked(asked, agents=("a", "b", "c"), booking=given, cpu=2, **more), "s")


@pytest.mark.parametrize("from_ms", [0, HOUR])
def test_a_session_that_its_booking_could_never_hold_is_told_so(from_ms: int) -> None:
    large = in_booking("cpu=2", "cpu=2", "cpu=2", booking={"from_ms": from_ms})
    assert (large.code, large.advice) == (Code.NEVER_FITS, Advice.CHANGE)
    told = "its booking demo, if it were empty, holds 2 kernels of cpu=2, 3 must start together"
    assert large.summary == told
    assert ("room", "no", told) in [(one.name, one.result, one.detail) for one in large.checks]
    wide = in_booking("cpu=3", booking={"from_ms": from_ms})
    assert (wide.code, wide.summary) == (Code.NEVER_FITS, "no agent of its booking demo could ever hold cpu=3")
    # Agents of a HyperNode may be away now, and a session that is attached would be cancelled.
    rack = {"agents": (), "hypernode": "rack", "from_ms": from_ms}
    whole = in_booking("cpu=2", "cpu=2", "cpu=2", booking=rack, hypernodes=(HyperNode("rack", 1, ("a", "b")),))
    assert whole.advice is Advice.WAIT


def test_a_session_that_its_booking_could_hold_later_waits_for_it() -> None:
    fits = in_booking("cpu=2", "cpu=2")
    assert fits.code is Code.NOT_YET_BEGIN
    # As many as must start together.
    some = in_booking("cpu=2", "cpu=2", "cpu=2", of_session={"min_kernels": 2})
    assert some.code is Code.NOT_YET_BEGIN
    mixed = in_booking("cpu=1", "cpu=2", "cpu=1")
    assert mixed.code is Code.NOT_YET_BEGIN
    # What an agent that is not there holds is not known.
    gone = in_booking("cpu=2", "cpu=2", "cpu=2", booking={"agents": ("a", "b", "gone")})
    assert gone.code is Code.NOT_YET_BEGIN


def test_a_booking_that_nobody_uses_is_given_up_after_a_while() -> None:
    booking = {"users": ("ann",), "from_ms": 0}
    assert where(booked(session("s"), booking=booking, now_ms=599_999)) == {}
    assert where(booked(session("s"), booking=booking, now_ms=600_000)) == {"s.0": "a"}
    used = booked(runs("hers", "a", user="ann", booking="demo"), session("s"), booking=booking, now_ms=600_000, cpu=2)
    assert where(used) == {}
    late = verdict_of(booked(session("s", user="ann", booking="demo"), booking=booking, now_ms=600_000), "s")
    assert late.advice is Advice.CHANGE
    assert late.summary == "its booking demo has ended, or was given up because no session used it"


def test_a_hypernode_is_booked_with_all_its_agents() -> None:
    booking = {"agents": (), "hypernode": "rack", "kind": BookingKind.MAINTENANCE, "from_ms": 0}
    plan = booked(session("s"), agents=("a", "b", "c"), booking=booking, hypernodes=(HyperNode("rack", 1, ("a", "b")),))
    assert where(plan) == {"s.0": "c"}


def test_verdicts_name_the_bookings_of_agents_that_could_hold_a_session() -> None:
    plan = booked(session("first", time_limit_ms=HOUR), session("s"))
    [check] = [check for check in verdict_of(plan, "s").checks if check.name == "bookings"]
    assert check.detail == "1 agent that could hold it is booked by demo in 1h"


def test_those_that_would_delay_a_session_are_told_why_by_their_own_limit() -> None:
    full = (runs("run", "a", running_since_ms=0, time_limit_ms=HOUR), session("whole", "cpu=1", "cpu=1", priority=1))
    plan = decide(cluster(*full, session("u"), session("l", time_limit_ms=2 * HOUR), agents=("a", "b")))
    [held] = plan.reservations
    assert (held.session_id, held.agents) == ("whole", ("a", "b"))
    assert "now: insufficient resources: 1 of 2 kernels would fit" in verdict_of(plan, "whole").summary
    assert "reserved for a session ahead in 1h, and it has no time limit" in verdict_of(plan, "u").summary
    assert "reserved for a session ahead in 1h, and it would not end by then" in verdict_of(plan, "l").summary


def test_a_session_in_its_booking_starts_although_its_agent_is_held_for_another_afterwards() -> None:
    plan = booked(
        session("outside"), session("hers", user="ann", booking="demo"), booking={"users": ("ann",), "from_ms": 0}
    )
    assert where(plan) == {"hers.0": "a"}
    assert verdict_of(plan, "outside").code is Code.RESERVED


def test_a_best_effort_session_uses_booked_agents_only_if_it_ends_before() -> None:
    assert where(booked(session("s", ""), agents=("a", "b"))) == {"s.0": "b"}
    assert where(booked(session("s", ""))) == {}
    assert where(booked(session("s", "", time_limit_ms=HOUR))) == {"s.0": "a"}


def test_the_agents_of_bookings_beyond_the_first_many_are_kept_free_as_well() -> None:
    names = [f"n{number:03}" for number in range(BOOKING_BLOCKS_MAX + 6)]
    bookings = tuple(
        Booking(f"b-{name}", HOUR + at, 2 * HOUR + at, agents=(name,), users=("ann",)) for at, name in enumerate(names)
    )
    waiting = [
        session("long"),
        session("short", time_limit_ms=HOUR // 2),
        session("late", booking="b-n069", user="ann"),
    ]
    plan = decide(cluster(*waiting, agents=names, bookings=bookings))
    assert list(where(plan)) == ["short.0"]
    assert verdict_of(plan, "late").summary == "its booking b-n069 begins in 1h1s"
    begun = decide(cluster(*waiting, agents=names, bookings=bookings, now_ms=HOUR + 100))
    assert "comes after 64 others" in verdict_of(begun, "late").summary

"""Whether a decision would be another one later."""

from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.eviction import BOOKING_LEAD_MS
from sokovan.scheduling.cycle_timing import depends_on_time, leaves_at
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import Reservation, SystemSnapshot
from tests.unit.scheduling.little_cluster import agent, kernel, session, snapshot

DAY_MS = 86_400_000
PLAIN = SchedulingProfile()


def busy(**more: Any) -> SystemSnapshot:
    """An agent with a session that runs, and some that wait."""
    return snapshot(
        [agent("a", "cpu=4", used="cpu=3", leased_ports=((20_000, FOREVER_MS),), kernel_count=1)],
        [
            session("runs", kernel("runs.0", "cpu=3", on="a")),
            session("large", "cpu=9"),
            session("gang", "cpu=1", "cpu=1"),
            session("label", kernel("label.0", "cpu=1", require={"none": "has"})),
        ],
        **more,
    )


def test_plain_sessions_are_decided_alike_at_any_time() -> None:
    now, later = busy(now_ms=DAY_MS), busy(now_ms=9 * DAY_MS)
    assert not depends_on_time(now, PLAIN)
    assert schedule(now, PLAIN) == schedule(later, PLAIN)


@pytest.mark.parametrize(
    "timed",
    [
        {"starts_at_ms": 9},
        {"deadline_ms": 9},
        {"time_limit_ms": 9},
        {"evictions_ms": (9,)},
        {"booking": "demo"},
    ],
    ids=str,
)
def test_a_session_with_a_time_is_decided_again(timed: dict[str, Any]) -> None:
    assert depends_on_time(snapshot([agent("a")], [session("s"), session("t", **timed)]), PLAIN)


def test_a_session_that_avoids_an_agent_for_a_while_is_decided_again() -> None:
    avoids = session("s", kernel("s.0", avoid=((AgentId("a"), 9),)))
    assert depends_on_time(snapshot([agent("a")], [avoids]), PLAIN)


def test_what_is_reserved_booked_or_free_at_a_time_is_decided_again() -> None:
    reserved = Reservation(SessionId("large"), ((KernelId("large.0"), AgentId("a")),))
    assert depends_on_time(busy(reservations=(reserved,)), PLAIN)
    booking = Booking(name="demo", from_ms=1, to_ms=DAY_MS, agents=(AgentId("a"),))
    assert depends_on_time(busy(bookings=(booking,)), PLAIN)
    free_soon = replace(busy().agents[0], leased_ports=((20_000, 9),))
    assert depends_on_time(replace(busy(), agents=(free_soon,)), PLAIN)


@pytest.mark.parametrize(
    "rules",
    [
        {"sequencer": "fair-share"},
        {"sequencer": "multifactor"},
        {"sequencer": "deadline"},
        {"sequencer": "own"},
        {"selector": "own"},
        {"validators": ("own",)},
        {"plugins": ("own",)},
        {"actions": ("allocate", "preempt")},
    ],
    ids=str,
)
def test_rules_that_may_look_at_the_time_are_asked_again(rules: dict[str, Any]) -> None:
    assert depends_on_time(busy(), SchedulingProfile(**rules))


def test_the_next_eviction_for_a_booking_is_a_time_to_decide_again() -> None:
    booking = Booking("demo", DAY_MS, 2 * DAY_MS, agents=("a",), users=("u",))
    assert leaves_at(busy()) is None
    assert leaves_at(busy(bookings=(booking,))) == DAY_MS - BOOKING_LEAD_MS
    late = busy(bookings=(booking,), now_ms=DAY_MS)
    assert leaves_at(late) == DAY_MS

"""Bookings: who may use which agents, and when."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.cluster.booking import (
    AgentUse,
    Booking,
    BookingKind,
    agents_in_use,
    agents_with,
    earliest_start,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slot_notation import parse_slots


def booking(**more: Any) -> Booking:
    return Booking(**{"name": "demo", "from_ms": 1000, "to_ms": 900_000, "agents": ("a",), **more})


def test_a_booking_permits_its_users_groups_and_queues() -> None:
    mine = booking(users=("ann",), groups=("lab",), queues=("prod",))
    assert mine.permits(Owner(user="ann"), "other")
    assert mine.permits(Owner(user="bob", group="lab"), "other")
    assert mine.permits(Owner(user="bob"), "prod")
    assert not mine.permits(Owner(user="bob"), "other")


def test_a_booking_that_nobody_uses_is_given_up_and_maintenance_is_not() -> None:
    assert booking(release_unused_s=60).released_at() == 61_000
    assert booking(release_unused_s=60_000).released_at() == 900_000
    assert booking(kind=BookingKind.MAINTENANCE).released_at() == 900_000


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"to_ms": 1000}, "to"),
        ({"from_ms": -1}, "from"),
        ({"agents": ()}, "agents"),
        ({"hypernode": "rack"}, "agents"),
        ({"kind": BookingKind.MAINTENANCE, "users": ("ann",)}, "users"),
        ({"users": "ann"}, "users"),
        ({"return_s": -1}, "return_s"),
        ({"agents": tuple(f"a{number}" for number in range(10_001))}, "agents"),
    ],
)
def test_a_booking_that_makes_no_sense_is_refused_with_its_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        booking(**wrong)
    assert refused.value.field == field


def use(agent: str, ends_ms: int | None) -> AgentUse:
    return AgentUse(agent, "s", ends_ms)


@pytest.mark.parametrize(
    ("uses", "others", "found", "reason"),
    [
        ((), (), 1_000, ""),
        ((use("a1", 900), use("other", None)), (), 1_000, ""),
        ((use("a1", 5_000), use("a1", 4_000)), (), 5_000, "session s on agent a1 may run for longer"),
        ((use("a1", None),), (), None, "session s on agent a1 has no time limit"),
        (
            (AgentUse("a1", "s", 5_000, evicted=True), use("a1", 4_000)),
            (),
            5_000,
            "session s on agent a1 could not be evicted by then, with its grace",
        ),
        ((AgentUse("a1", "s", 900, evicted=True),), (), 1_000, ""),
        ((), (("b", 0, 1_000), ("c", 900_000, 950_000)), 1_000, ""),
        ((), (("b", 0, 2_000),), 2_000, "agent a1 is booked by b"),
        (
            (),
            (("c", 901_000, 950_000), ("b", 0, 2_500)),
            950_000,
            "agent a1 is booked by b; then agent a1 is booked by c",
        ),
        (
            (use("a1", 1_500),),
            (("c", 900_200, 950_000),),
            950_000,
            "session s on agent a1 may run for longer; then agent a1 is booked by c",
        ),
        ((), (("mine", 0, 2_000),), 1_000, ""),
    ],
)
def test_a_booking_begins_when_its_agents_are_free_for_its_whole_length(
    uses: tuple[AgentUse, ...], others: tuple[tuple[str, int, int], ...], found: int | None, reason: str
) -> None:
    known = [(booking(name=name, from_ms=start, to_ms=end), ("a1",)) for name, start, end in others]
    assert earliest_start(booking(name="mine"), ("a1",), uses, known) == (found, reason)


def test_the_fewest_agents_that_have_so_much_are_chosen_the_largest_first() -> None:
    has = {"a": "cuda.device=4", "b": "cuda.device=8", "c": "cuda.device=8", "d": "cpu=64"}
    candidates = {name: parse_slots(text) for name, text in has.items()}
    assert agents_with(parse_slots("cuda.device=8"), candidates) == ("b",)
    assert agents_with(parse_slots("cuda.device=17"), candidates) == ("b", "c", "a")
    assert agents_with(parse_slots("cuda.device=8 cpu=1"), candidates) == ("d", "b")
    assert agents_with(parse_slots("cuda.device=21"), candidates) == ()


def test_agents_that_are_used_or_booked_at_the_time_of_a_booking_are_in_use() -> None:
    wanted = Booking("new", 100, 200, slots=parse_slots("cpu=1"), users=("u",))
    uses = [AgentUse("ends", "s", 100), AgentUse("late", "s", 101), AgentUse("ever", "s")]
    before, within = Booking("before", 0, 100, agents=("x",)), Booking("within", 150, 160, agents=("y",))
    assert agents_in_use(wanted, uses, [(before, ("x",)), (within, ("y",))]) == {"late", "ever", "y"}


@pytest.mark.parametrize(
    "more",
    [
        {"slots": parse_slots("cpu=1"), "hypernode": "r1"},
        {"slots": parse_slots("cpu=1"), "kind": BookingKind.MAINTENANCE},
    ],
)
def test_slots_go_with_no_hypernode_and_no_maintenance(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        Booking("b", 0, 10, **more)

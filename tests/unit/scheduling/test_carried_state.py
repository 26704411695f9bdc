"""The state carried between cycles: what a plan replaces, and what it leaves."""

from dataclasses import replace

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.plan import Relocation, SchedulingPlan
from sokovan.scheduling.snapshot import Reservation

A1, A2 = AgentId("a1"), AgentId("a2")


def reservation(name: str) -> Reservation:
    return Reservation(SessionId(name), ((KernelId(f"{name}.0"), A1),))


def timed(name: str, starts_ms: int) -> Reservation:
    return replace(reservation(name), starts_ms=starts_ms)


def test_a_cursor_that_did_not_move_stays() -> None:
    state = CarriedState(cursors={"default": A1})
    assert state.after(SchedulingPlan()) == state


def test_a_cursor_that_moved_replaces_the_one_of_its_name_only() -> None:
    state = CarriedState(cursors={"default": A1, "other": A1})
    assert state.after(SchedulingPlan(cursors={"default": A2})).cursors == {"default": A2, "other": A1}


def test_the_reservations_of_a_plan_replace_all_earlier_ones() -> None:
    state = CarriedState((reservation("s1"), reservation("s2")))
    assert state.after(SchedulingPlan(reservations=(reservation("s2"),))).reservations == (reservation("s2"),)
    assert state.after(SchedulingPlan()).reservations == ()


def test_sessions_that_move_hold_the_places_that_they_move_to() -> None:
    moves = tuple(
        Relocation(KernelId(f"gang.{number}"), SessionId("gang"), A1, A2, SessionId("big")) for number in range(2)
    )
    after = CarriedState().after(SchedulingPlan(reservations=(reservation("big"),), moves=moves))
    to_a2 = Reservation(SessionId("gang"), ((KernelId("gang.0"), A2), (KernelId("gang.1"), A2)))
    assert after.reservations == (reservation("big"), to_a2)


def test_a_session_that_ended_has_no_reservation() -> None:
    state = CarriedState((reservation("s1"), reservation("s2")))
    assert state.reserved_for({SessionId("s2"), SessionId("s3")}) == (reservation("s2"),)


def test_a_time_that_moved_is_no_change_but_a_time_that_is_new_is_one() -> None:
    released, soon, later = reservation("s1"), timed("s1", 1_000), timed("s1", 2_000)
    assert CarriedState((soon,)).is_like(CarriedState((later,)))
    assert not CarriedState((soon,)).is_like(CarriedState((released,)))
    assert not CarriedState((soon,)).is_like(CarriedState((timed("s2", 1_000),)))
    assert not CarriedState((soon,)).is_like(CarriedState((soon,), {"default": A1}))

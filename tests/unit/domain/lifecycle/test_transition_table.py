"""A table answers for its rows, and one that contradicts itself is never built."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any

import pytest

from sokovan.domain.errors import ForbiddenCause, IllegalTransition, InvalidTable
from sokovan.domain.lifecycle.transition_table import CONTROLLER, COORDINATOR, REPORT, Cause, Deadline, TransitionTable


class Door(StrEnum):
    OPEN = auto()
    CLOSED = auto()
    BRICKED_UP = auto()


class Push(StrEnum):
    SHUT = auto()
    OPENED = auto()
    WALLED = auto()


ROWS = [
    (Door.OPEN, Push.SHUT, Door.CLOSED, CONTROLLER | COORDINATOR),
    (Door.CLOSED, Push.OPENED, Door.OPEN, REPORT),
    (Door.CLOSED, Push.WALLED, Door.BRICKED_UP, COORDINATOR),
]


def door(**changed: Any) -> TransitionTable[Door, Push]:
    parts: dict[str, Any] = {
        "initial": Door.OPEN,
        "moves": ROWS,
        "deadlines": {Door.CLOSED: Deadline(60, Push.WALLED)},
        "transient": [Door.CLOSED],
    }
    return TransitionTable("door", **parts | changed)


def test_a_move_leads_to_the_state_of_its_row() -> None:
    assert door().after(Door.OPEN, Push.SHUT, by=Cause.CONTROLLER) is Door.CLOSED
    assert door().move(Door.CLOSED, Push.OPENED, by=Cause.AGENT_REPORT).after is Door.OPEN


def test_a_move_without_a_row_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(IllegalTransition, match="door in closed cannot take shut; legal here: opened, walled"):
        door().move(Door.CLOSED, Push.SHUT, by=Cause.COORDINATOR)


def test_a_final_state_says_that_it_is_final() -> None:
    with pytest.raises(IllegalTransition, match="legal here: none, the state is final"):
        door().move(Door.BRICKED_UP, Push.OPENED, by=Cause.COORDINATOR)


def test_a_cause_that_the_row_does_not_name_is_refused_with_those_it_names() -> None:
    with pytest.raises(
        ForbiddenCause, match="shut of a door may come from controller, coordinator, not from agent_report"
    ):
        door().after(Door.OPEN, Push.SHUT, by=Cause.AGENT_REPORT)


def test_what_is_not_in_the_table_is_illegal_before_it_is_forbidden() -> None:
    with pytest.raises(IllegalTransition):
        door().after(Door.OPEN, Push.WALLED, by=Cause.AGENT_REPORT)


def test_the_states_are_all_that_are_declared_and_the_final_ones_have_no_row() -> None:
    assert door().states == (Door.OPEN, Door.CLOSED, Door.BRICKED_UP)
    assert door().terminal == {Door.BRICKED_UP}


def test_the_legal_triggers_of_a_state_come_in_the_order_of_the_rows() -> None:
    assert door().legal_in(Door.CLOSED) == [Push.OPENED, Push.WALLED]
    assert door().legal_in(Door.BRICKED_UP) == []


def test_an_overdue_state_is_ended_by_the_move_of_its_deadline() -> None:
    assert door().expiry(Door.CLOSED).after is Door.BRICKED_UP


def test_a_state_without_a_deadline_does_not_expire() -> None:
    with pytest.raises(IllegalTransition, match="door in open cannot take an expiry"):
        door().expiry(Door.OPEN)


def test_two_rows_for_one_trigger_in_one_state_are_no_table() -> None:
    with pytest.raises(InvalidTable, match="the door table has two rows for closed, walled"):
        door(moves=[*ROWS, (Door.CLOSED, Push.WALLED, Door.OPEN, COORDINATOR)])


def test_a_transient_state_without_a_deadline_is_no_table() -> None:
    with pytest.raises(InvalidTable, match="gives the transient state open no deadline"):
        door(transient=[Door.OPEN])


def test_a_deadline_whose_trigger_has_no_row_is_no_table() -> None:
    with pytest.raises(InvalidTable, match="cannot make the expiry transition of closed"):
        door(deadlines={Door.CLOSED: Deadline(60, Push.SHUT)})


def test_a_deadline_that_the_coordinator_may_not_enforce_is_no_table() -> None:
    with pytest.raises(InvalidTable, match="opened of a door may come from agent_report, not from coordinator"):
        door(deadlines={Door.CLOSED: Deadline(60, Push.OPENED)})


def test_a_table_keeps_no_hold_on_the_rows_it_was_given() -> None:
    rows = list(ROWS)
    table = door(moves=rows)
    rows.clear()
    assert len(table.moves) == 3

"""Properties of every lifecycle, independent of its rows."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.errors import ForbiddenCause, IllegalTransition
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.lifecycle.transition_table import Cause, TransitionTable

Table = TransitionTable[Any, Any]

TABLES: list[Table] = [SESSION, KERNEL, AGENT, DEPLOYMENT, REPLICA, ROLLOUT, ROUTE]
FINAL = {
    "session": {"terminated", "cancelled"},
    "kernel": {"terminated", "cancelled"},
    "agent": {"terminated"},
    "deployment": {"terminated"},
    "replica": {"failed", "gone"},
    "rollout": {"completed", "rolled_back"},
    "route": {"terminated"},
}

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))


def reachable(table: Table, start: Any) -> set[Any]:
    """Every state that some sequence of moves leads to, `start` included."""
    found, left = {start}, [start]
    while left:
        state = left.pop()
        onward = {move.after for move in table.moves if move.before == state} - found
        found |= onward
        left.extend(onward)
    return found


def triggers(table: Table) -> list[Any]:
    kind: type[StrEnum] = type(table.moves[0].trigger)
    return list(kind)


@every_table
def test_every_state_reaches_a_final_one(table: Table) -> None:
    assert [state for state in table.states if not reachable(table, state) & table.terminal] == []


@every_table
def test_no_row_leaves_a_final_state(table: Table) -> None:
    assert {state.value for state in table.terminal} == FINAL[table.name]
    assert [move for move in table.moves if move.before.value in FINAL[table.name]] == []


@every_table
def test_every_state_is_reached_from_the_first(table: Table) -> None:
    assert reachable(table, table.initial) == set(table.states)


@every_table
def test_every_trigger_has_a_row_and_every_row_a_cause(table: Table) -> None:
    assert {move.trigger for move in table.moves} == set(triggers(table))
    assert [move for move in table.moves if not move.causes] == []


@every_table
def test_every_transient_state_has_a_time_limit_and_a_row_that_ends_it(table: Table) -> None:
    for state in table.transient:
        assert (table.deadlines[state].seconds or 0) > 0
        assert table.expiry(state).before == state


@every_table
def test_a_limit_that_the_table_leaves_open_says_who_sets_it(table: Table) -> None:
    for state, deadline in table.deadlines.items():
        assert (deadline.seconds is None) == bool(deadline.set_by)
        assert deadline.seconds is not None or state not in table.transient


@every_table
def test_no_final_state_has_a_time_limit(table: Table) -> None:
    assert not table.terminal & set(table.deadlines)


@every_table
@given(data=st.data())
def test_a_random_walk_only_ever_takes_rows_of_the_table(table: Table, data: st.DataObject) -> None:
    rows = {(move.before, move.trigger): move for move in table.moves}
    attempts = st.tuples(st.sampled_from(triggers(table)), st.sampled_from(Cause))
    state = table.initial
    for trigger, cause in data.draw(st.lists(attempts, max_size=60)):
        row = rows.get((state, trigger))
        if row is None:
            with pytest.raises(IllegalTransition):
                table.move(state, trigger, by=cause)
        elif cause not in row.causes:
            with pytest.raises(ForbiddenCause):
                table.move(state, trigger, by=cause)
        else:
            state = table.after(state, trigger, by=cause)
            assert state == row.after


@every_table
@given(data=st.data())
def test_the_refusal_of_a_move_names_exactly_the_moves_there_are(table: Table, data: st.DataObject) -> None:
    state, trigger = data.draw(st.sampled_from(table.states)), data.draw(st.sampled_from(triggers(table)))
    legal = [move.trigger for move in table.moves if move.before == state]
    assert table.legal_in(state) == legal
    if trigger not in legal:
        with pytest.raises(IllegalTransition) as refusal:
            table.move(state, trigger, by=Cause.COORDINATOR)
        assert list(refusal.value.legal) == legal

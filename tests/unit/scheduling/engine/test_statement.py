"""Statement: tentative changes are committed as a whole, or rolled back exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions
from sokovan.scheduling.selection import choice_for
from sokovan.scheduling.selectors.roundrobin import RoundRobinSelector
from tests.quick import at_most
from tests.unit.scheduling.engine.builders import EngineParts, agent, agents


@dataclass(frozen=True)
class WorkspaceState:
    """Everything that a rollback must restore, byte by byte."""

    room: bytes
    occupancy: bytes
    held: int


def state_of(workspace: Workspace) -> WorkspaceState:
    return WorkspaceState(workspace.room.tobytes(), workspace.occupancy.tobytes(), workspace.held)


def cluster() -> EngineParts:
    return EngineParts(
        agent("a1", "cpu=64 mem=9Ti", used="cpu=8 mem=5Ti", leaving="cpu=4"),
        agent("a2", "cpu=32 mem=3Ti", kernels_max=9),
        agent("a3", "cpu=16 mem=7Ti", used="mem=1Ti", leaving="mem=1Ti"),
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["place", "place_many", "reserve", "evict"]),
        st.sampled_from(["cpu=1", "cpu=0.333 mem=1Gi", "mem=50000000001", ""]),
        st.lists(st.integers(0, 3), min_size=3, max_size=3),
    ),
    max_size=12,
)

Steps = list[tuple[str, str, list[int]]]


def apply(statement: Statement, engine: EngineParts, taken: Steps) -> None:
    for kind, slots, numbers in taken:
        row = numbers[0] % 3
        if kind == "place":
            batch = engine.batch(slots, 1 + numbers[1])
            statement.place(batch, batch.kernels, row)
        elif kind == "place_many":
            batch = engine.batch(slots, sum(numbers))
            statement.place_many(batch, batch.kernels[: sum(numbers)], np.arange(3), np.array(numbers))
        elif kind == "reserve":
            batch = engine.batch(slots)
            statement.reserve(batch, batch.kernels[0], row)
        else:
            statement.evict(engine.shape(slots), row)


@pytest.mark.slow
@at_most(60)
@given(before=steps, after=steps)
def test_a_rollback_restores_the_workspace_exactly_to_the_checkpoint(before: Steps, after: Steps) -> None:
    engine = cluster()
    statement = engine.statement()
    untouched = state_of(engine.workspace)
    apply(statement, engine, before)
    checkpoint, halfway = statement.checkpoint(), state_of(engine.workspace)
    apply(statement, engine, after)
    statement.rollback(checkpoint)
    assert state_of(engine.workspace) == halfway
    statement.rollback()
    assert state_of(engine.workspace) == untouched


@at_most(60)
@given(taken=steps)
def test_after_a_commit_or_a_rollback_another_rollback_changes_nothing(taken: Steps) -> None:
    engine = cluster()
    statement = engine.statement()
    apply(statement, engine, taken)
    kept = state_of(engine.workspace)
    assert len(statement.commit()) == len(taken)
    statement.rollback()
    assert state_of(engine.workspace) == kept
    assert statement.commit() == ()


@at_most(60)
@given(taken=steps)
def test_the_same_steps_after_a_rollback_come_to_the_same(taken: Steps) -> None:
    engine = cluster()
    statement = engine.statement()
    apply(statement, engine, taken)
    first = state_of(engine.workspace)
    statement.rollback()
    apply(statement, engine, taken)
    assert state_of(engine.workspace) == first


@pytest.mark.slow
@at_most(60)
@given(taken=steps, more=steps)
def test_a_statement_takes_back_its_own_steps_only(taken: Steps, more: Steps) -> None:
    engine = cluster()
    kept = engine.statement()
    apply(kept, engine, taken)
    kept.commit()
    before = state_of(engine.workspace)
    dropped = engine.statement()
    apply(dropped, engine, more)
    dropped.rollback()
    assert state_of(engine.workspace) == before


def test_an_evicted_kernel_makes_room_for_later_until_the_eviction_is_taken_back() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=8"))
    statement = engine.statement()
    statement.evict(engine.shape("cpu=3"), 0)
    assert (engine.idle("a1"), engine.future("a1")) == ({"cpu": 0}, {"cpu": 3000})
    statement.rollback()
    assert (engine.idle("a1"), engine.future("a1")) == ({"cpu": 0}, {"cpu": 0})


def test_a_reservation_can_take_what_an_eviction_frees() -> None:
    engine = EngineParts(agent("a1", "cpu=8", used="cpu=8"))
    statement = engine.statement()
    statement.evict(engine.shape("cpu=3"), 0)
    batch = engine.batch("cpu=2")
    statement.reserve(batch, batch.kernels[0], 0)
    assert engine.future("a1") == {"cpu": 1000}
    assert engine.workspace.held == 1


def test_a_commit_hands_over_the_steps_in_the_order_in_which_they_were_taken() -> None:
    engine = cluster()
    statement, batch = engine.statement(), engine.batch("cpu=1", 3)
    statement.place(batch, batch.kernels[:2], 1)
    statement.reserve(batch, batch.kernels[2], 0)
    taken = statement.commit()
    assert [(step.kind, step.agents, step.counts) for step in taken] == [("place", 1, 2), ("reserve", 0, 1)]


def test_a_rollback_is_in_the_log_as_well_because_it_changes_agents_too() -> None:
    engine = cluster()
    statement = engine.statement()
    batch = engine.batch("cpu=1")
    statement.place(batch, batch.kernels, 1)
    statement.rollback()
    assert engine.workspace.log == [1, 1]


def test_a_rollback_restores_the_lists_of_kernels_to_the_checkpoint() -> None:
    engine = EngineParts(agent("a", "cpu=2"), agent("b", "cpu=4", used="cpu=4", leaving="cpu=4"))
    statement, batch = engine.statement(), engine.batch("cpu=1", 4)
    first, second, third, fourth = batch.kernels
    statement.place(batch, [first], 0)
    checkpoint = statement.checkpoint()
    statement.place(batch, [second], 0)
    statement.reserve(batch, third, 1)
    statement.reserve(batch, fourth, 1)
    assert statement.shape_counts() == {batch.shape: 4}
    statement.rollback(checkpoint)
    assert (statement.placed, statement.reserved) == ([(batch, first, 0)], [])
    assert statement.shape_counts() == {batch.shape: 1}
    assert engine.workspace.held == 0


def test_a_rollback_restores_the_cursor_of_a_rotating_choice() -> None:
    engine = EngineParts(*agents(3, "cpu=2"))
    choice = choice_for(RoundRobinSelector(), engine.table, Extensions(), slot_priority=(), cursor="a1")
    statement, batch = Statement(engine.workspace, choice), engine.batch("cpu=1", 2)
    statement.place(batch, batch.kernels[:1], 2)
    checkpoint = statement.checkpoint()
    statement.reserve(batch, batch.kernels[1], 0)
    assert choice.cursor == "a0"
    statement.rollback(checkpoint)
    assert choice.cursor == "a2"
    statement.rollback()
    assert choice.cursor == "a1"


def test_an_attempt_keeps_its_changes_only_if_the_step_returns_true() -> None:
    engine = cluster()
    statement, batch = engine.statement(), engine.batch("cpu=1", 2)
    before = state_of(engine.workspace)

    def step(answer: bool) -> bool:
        statement.place(batch, batch.kernels, 1)
        return answer

    assert not statement.attempt(lambda: step(False))
    assert (state_of(engine.workspace), statement.placed) == (before, [])
    assert statement.attempt(lambda: step(True))
    assert len(statement.placed) == 2


def test_attempts_nest_and_a_failed_one_keeps_what_was_there_before_it() -> None:
    engine = cluster()
    statement, batch = engine.statement(), engine.batch("cpu=1", 2)

    def inner() -> bool:
        statement.place(batch, batch.kernels[1:], 2)
        return False

    def outer() -> bool:
        statement.place(batch, batch.kernels[:1], 1)
        return not statement.attempt(inner)

    assert statement.attempt(outer)
    assert statement.placed == [(batch, batch.kernels[0], 1)]


def test_an_exception_in_an_attempt_rolls_back_and_is_raised() -> None:
    engine = cluster()
    statement, batch = engine.statement(), engine.batch("cpu=1")
    before = state_of(engine.workspace)

    def step() -> bool:
        statement.place(batch, batch.kernels, 1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        statement.attempt(step)
    assert (state_of(engine.workspace), statement.placed) == (before, [])

"""A run of tentative steps: it is kept whole, or it leaves no trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.workspace import Workspace
from tests.unit.scheduling.engine.builders import Bench, agent


@dataclass(frozen=True)
class Print:
    """Everything that a rollback must restore, byte by byte."""

    room: bytes
    occupancy: bytes
    held: int


def print_of(workspace: Workspace) -> Print:
    return Print(workspace.room.tobytes(), workspace.occupancy.tobytes(), workspace.held)


def cluster() -> Bench:
    return Bench(
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


def walk(statement: Statement, bench: Bench, taken: Steps) -> None:
    for kind, slots, numbers in taken:
        shape, where = bench.shape(slots), numbers[0] % 3
        if kind == "place":
            statement.place(shape, where, 1 + numbers[1])
        elif kind == "place_many":
            statement.place_many(shape, np.arange(3), np.array(numbers))
        elif kind == "reserve":
            statement.reserve(shape, where)
        else:
            statement.evict(shape, where)


@settings(max_examples=60)
@given(before=steps, after=steps)
def test_a_rollback_restores_the_workspace_exactly_to_the_checkpoint(before: Steps, after: Steps) -> None:
    bench = cluster()
    statement = Statement(bench.workspace)
    untouched = print_of(bench.workspace)
    walk(statement, bench, before)
    checkpoint, halfway = statement.checkpoint(), print_of(bench.workspace)
    walk(statement, bench, after)
    statement.rollback(checkpoint)
    assert print_of(bench.workspace) == halfway
    statement.rollback()
    assert print_of(bench.workspace) == untouched


@settings(max_examples=60)
@given(taken=steps)
def test_after_a_commit_or_a_rollback_another_rollback_changes_nothing(taken: Steps) -> None:
    bench = cluster()
    statement = Statement(bench.workspace)
    walk(statement, bench, taken)
    kept = print_of(bench.workspace)
    assert len(statement.commit()) == len(taken)
    statement.rollback()
    assert print_of(bench.workspace) == kept
    assert statement.commit() == ()


@settings(max_examples=60)
@given(taken=steps)
def test_the_same_steps_after_a_rollback_come_to_the_same(taken: Steps) -> None:
    bench = cluster()
    statement = Statement(bench.workspace)
    walk(statement, bench, taken)
    first = print_of(bench.workspace)
    statement.rollback()
    walk(statement, bench, taken)
    assert print_of(bench.workspace) == first


@settings(max_examples=60)
@given(taken=steps, more=steps)
def test_a_statement_takes_back_its_own_steps_only(taken: Steps, more: Steps) -> None:
    bench = cluster()
    kept = Statement(bench.workspace)
    walk(kept, bench, taken)
    kept.commit()
    before = print_of(bench.workspace)
    dropped = Statement(bench.workspace)
    walk(dropped, bench, more)
    dropped.rollback()
    assert print_of(bench.workspace) == before


def test_an_evicted_kernel_makes_room_for_later_until_the_eviction_is_taken_back() -> None:
    bench = Bench(agent("a1", "cpu=8", used="cpu=8"))
    statement = Statement(bench.workspace)
    statement.evict(bench.shape("cpu=3"), 0)
    assert (bench.idle("a1"), bench.future("a1")) == ({"cpu": 0}, {"cpu": 3000})
    statement.rollback()
    assert (bench.idle("a1"), bench.future("a1")) == ({"cpu": 0}, {"cpu": 0})


def test_a_reservation_can_take_what_an_eviction_frees() -> None:
    bench = Bench(agent("a1", "cpu=8", used="cpu=8"))
    statement = Statement(bench.workspace)
    statement.evict(bench.shape("cpu=3"), 0)
    statement.reserve(bench.shape("cpu=2"), 0)
    assert bench.future("a1") == {"cpu": 1000}
    assert bench.workspace.held == 1


def test_a_commit_hands_over_the_steps_in_the_order_in_which_they_were_taken() -> None:
    bench = cluster()
    statement, shape = Statement(bench.workspace), bench.shape("cpu=1")
    statement.place(shape, 1, 2)
    statement.reserve(shape, 0)
    taken = statement.commit()
    assert [(step.kind, step.agents, step.counts) for step in taken] == [("place", 1, 2), ("reserve", 0, 1)]


def test_a_rollback_is_in_the_log_as_well_because_it_changes_agents_too() -> None:
    bench = cluster()
    statement = Statement(bench.workspace)
    statement.place(bench.shape("cpu=1"), 1)
    statement.rollback()
    assert bench.workspace.log == [1, 1]

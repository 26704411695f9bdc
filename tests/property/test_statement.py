"""A rolled back Statement leaves every number of the workspace as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.ids import KernelId
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.engine.agent_choice import KeyedChoice
from sokovan.scheduling.engine.pending_session import KernelBatch
from sokovan.scheduling.engine.shapes import ShapeTable
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.snapshot import KernelWorkload, SystemSnapshot
from tests.scenario.random_cases import Case, Features, cases

RUNNING = Features(bare=False, parts=False, owners=False, queues=False)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "place_many", "reserve", "evict", "checkpoint", "rollback"]),
        st.integers(0, 2),
        st.integers(0, 9),
        st.integers(1, 3),
    ),
    max_size=25,
)
SHAPES = [
    KernelWorkload(KernelId("small"), ResourceSlot({"cpu": 1})),
    KernelWorkload(KernelId("large"), ResourceSlot({"cpu": 3, "cuda.device": 1})),
    KernelWorkload(KernelId("bare"), ResourceSlot()),
]


def workspace_of(snapshot: SystemSnapshot) -> Workspace:
    return Workspace(snapshot.agents, snapshot.tree, {"cpu", "cuda.device"})


def numbers(workspace: Workspace) -> tuple[Any, ...]:
    """Every number that a decision may look at."""
    return (
        workspace.idle.tolist(),
        workspace.future.tolist(),
        workspace.occupancy.tolist(),
        workspace.held,
        workspace.capacity.tolist(),
        workspace.total(),
    )


def statement_on(table: ShapeTable) -> Statement:
    ranks = table.workspace.id_rank
    return Statement(table.workspace, KeyedChoice(table, rank=ranks, weight=lambda occupancy: occupancy, fills=False))


def batch_of(table: ShapeTable, which: int, count: int = 1) -> KernelBatch:
    return KernelBatch(table.of(SHAPES[which]), [SHAPES[which]] * count)


def apply(statement: Statement, kind: str, table: ShapeTable, which: int, *, agent: int, count: int) -> None:
    if kind == "place":
        batch = batch_of(table, which, count)
        statement.place(batch, batch.kernels, agent)
    elif kind == "place_many":
        several = np.arange(agent, len(table.workspace.ids), dtype=np.int64)
        batch = batch_of(table, which, count * len(several))
        statement.place_many(batch, batch.kernels, several, np.full(len(several), count, np.int64))
    elif kind == "reserve":
        batch = batch_of(table, which)
        statement.reserve(batch, batch.kernels[0], agent)
    else:
        statement.evict(table.of(SHAPES[which]), agent)


@given(cases(RUNNING), STEPS)
def test_a_rollback_to_any_checkpoint_restores_every_number(case: Case, steps: list[tuple[str, int, int, int]]) -> None:
    workspace = workspace_of(case.snapshot)
    table = ShapeTable(workspace)
    statement, before, agents = statement_on(table), numbers(workspace), len(workspace.ids)
    checkpoints: list[tuple[int, tuple[Any, ...]]] = []
    for kind, which, where, count in steps:
        if kind == "checkpoint":
            checkpoints.append((statement.checkpoint(), numbers(workspace)))
        elif kind == "rollback" and checkpoints:
            checkpoint, then = checkpoints.pop(where % len(checkpoints))
            del checkpoints[where % (len(checkpoints) + 1) :]
            statement.rollback(checkpoint)
            assert numbers(workspace) == then
        elif kind != "rollback":
            apply(statement, kind, table, which, agent=where % agents, count=count)
    statement.rollback()
    assert numbers(workspace) == before


@given(cases(RUNNING), STEPS)
def test_what_was_kept_is_not_undone_by_a_late_rollback(case: Case, steps: list[tuple[str, int, int, int]]) -> None:
    workspace = workspace_of(case.snapshot)
    table = ShapeTable(workspace)
    statement = statement_on(table)
    for kind, which, where, count in steps:
        if kind not in {"checkpoint", "rollback"}:
            apply(statement, kind, table, which, agent=where % len(workspace.ids), count=count)
    after = numbers(workspace)
    kept = statement.commit()
    assert len(kept) == sum(kind not in {"checkpoint", "rollback"} for kind, *_ in steps)
    statement.rollback()
    assert numbers(workspace) == after
    assert statement.commit() == ()


@given(cases(RUNNING), st.integers(1, 3), st.integers(0, 2))
def test_many_at_once_and_one_by_one_come_to_the_same(case: Case, count: int, which: int) -> None:
    one, many = workspace_of(case.snapshot), workspace_of(case.snapshot)
    table_one, table_many = ShapeTable(one), ShapeTable(many)
    singly, together = statement_on(table_one), statement_on(table_many)
    agents = len(one.ids)
    batch = batch_of(table_one, which)
    for agent in range(agents):
        for _ in range(count):
            singly.place(batch, batch.kernels, agent)
    batch = batch_of(table_many, which, agents * count)
    together.place_many(batch, batch.kernels, np.arange(agents), np.full(agents, count, np.int64))
    assert numbers(one) == numbers(many)


@given(cases(RUNNING))
def test_a_workspace_begins_with_what_the_snapshot_says(case: Case) -> None:
    workspace = workspace_of(case.snapshot)
    for agent in case.snapshot.agents:
        row = workspace.position[agent.agent_id]
        used, leaving = (workspace.row_of(s, kernels=0) for s in (agent.occupied_slots, agent.releasing_slots))
        idle, later = workspace.idle[row].tolist(), workspace.future[row].tolist()
        capacity = workspace.capacity[row].tolist()
        assert idle[:-1] == [all_ - busy for all_, busy in zip(capacity, used, strict=True)][:-1]
        assert later[:-1] == [now + soon for now, soon in zip(idle, leaving, strict=True)][:-1]
        assert later[-1] - idle[-1] == agent.releasing_count


@given(cases(RUNNING))
def test_a_kernel_that_comes_and_goes_leaves_the_choice_of_agents_as_it_was(case: Case) -> None:
    quiet = replace(case.snapshot, sessions=case.snapshot.sessions[:1])
    workspace = workspace_of(quiet)
    table = ShapeTable(workspace)
    shape, batch = table.of(SHAPES[0]), batch_of(table, 0)
    counts = shape.fit_counts(workspace).tolist(), shape.future_counts(workspace).tolist()
    statement = statement_on(table)
    for agent in range(len(workspace.ids)):
        statement.reserve(batch, batch.kernels[0], agent)
        statement.place(batch, batch.kernels, agent)
    statement.rollback()
    assert (shape.fit_counts(workspace).tolist(), shape.future_counts(workspace).tolist()) == counts

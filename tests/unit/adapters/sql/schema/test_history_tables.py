"""Histories allow what the lifecycle tables allow, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from sokovan.adapters.sql.schema.tables import HISTORIES
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.lifecycle.transition_table import TransitionTable
from sokovan.testing.stored_cluster import StoredCluster

MACHINES: list[TransitionTable[Any, Any]] = [SESSION, KERNEL, AGENT, DEPLOYMENT, ROUTE]
REST = {"trigger": "t", "who": "w", "cause": "coordinator", "code": "", "detail": "", "at_ms": 0, "last_ms": 0}


@pytest.fixture
async def connection() -> AsyncIterator[AsyncConnection]:
    async with StoredCluster.open() as cluster, cluster.store.database.writing() as ready:
        yield ready


async def insert_row(connection: AsyncConnection, machine: TransitionTable[Any, Any], **values: object) -> None:
    row = {"object_id": "x", "previous": None, "before": None, "times": 1, **REST, **values}
    async with connection.begin_nested():
        await connection.execute(sa.insert(HISTORIES[machine.name]), row)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
async def test_only_legal_moves_and_notes_can_be_inserted(
    machine: TransitionTable[Any, Any], connection: AsyncConnection
) -> None:
    # Foreign keys would require a whole history before each row; legality concerns one row.
    await connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    legal = {(move.before, move.after) for move in machine.moves}
    for number, (before, after) in enumerate((b, a) for b in machine.states for a in machine.states):
        row = {"object_id": f"x{number}", "sequence": 2, "previous": 1, "before": before.value, "after": after.value}
        if (before, after) in legal or (before is after and before not in machine.terminal):
            await insert_row(connection, machine, **row)
        else:
            with pytest.raises(IntegrityError):
                await insert_row(connection, machine, **row)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
async def test_a_history_begins_with_the_initial_status(
    machine: TransitionTable[Any, Any], connection: AsyncConnection
) -> None:
    for state in machine.states:
        if state is not machine.initial:
            with pytest.raises(IntegrityError):
                await insert_row(connection, machine, sequence=1, after=state.value)
    await insert_row(connection, machine, sequence=1, after=machine.initial.value)


@pytest.mark.parametrize(
    "row",
    [
        {"sequence": 3, "previous": 2, "before": "alive", "after": "suspect"},
        {"sequence": 3, "previous": 1, "before": "alive", "after": "suspect"},
        {"sequence": 2, "previous": None, "before": "alive", "after": "suspect"},
        {"sequence": 2, "previous": 1, "before": None, "after": "alive"},
        {"sequence": 2, "previous": 1, "before": "suspect", "after": "lost"},
        {"sequence": 1, "after": "alive"},
        {"sequence": 0, "after": "alive"},
        {"sequence": 2, "previous": 1, "before": "alive", "after": "suspect", "times": 0},
    ],
    ids=["gap", "skipped", "unchained", "no before", "jump", "twice", "zeroth", "no times"],
)
async def test_a_history_is_gapless_and_chained(row: dict[str, object], connection: AsyncConnection) -> None:
    await insert_row(connection, AGENT, sequence=1, after="alive")
    with pytest.raises(IntegrityError):
        await insert_row(connection, AGENT, **row)


async def test_a_status_is_that_of_the_last_line_it_points_at(connection: AsyncConnection) -> None:
    await insert_row(connection, DEPLOYMENT, sequence=1, after="pending")
    texts = ("deployment_id", "name", "user", "group", "domain", "access_key", "body")
    numbers = ("replicas_desired", "revision", "created_ms", "since_ms", "place", "version")
    values = {**dict.fromkeys(texts, "x"), **dict.fromkeys(numbers, 1), "holding": False}
    table = sa.table("deployments", *[sa.column(name) for name in (*values, "status", "history_sequence")])
    for wrong in ({"status": "running", "history_sequence": 1}, {"status": "pending", "history_sequence": 2}):
        with pytest.raises(IntegrityError):
            async with connection.begin_nested():
                await connection.execute(sa.insert(table), {**values, **wrong})
    await connection.execute(sa.insert(table), {**values, "status": "pending", "history_sequence": 1})

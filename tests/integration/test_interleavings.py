"""Two transactions on a real server, in every order that their statements can have.

A statement that has to wait for a lock stands where it was tried: trying earlier or
later is another order. How many orders there are follows from the two sequences and
from the one lock that they fight for (`orders_of`); the walk must find as many.

Two allocations are walked by single statements, commits included: 456 orders when
this was written. Of the others, whose orders would be thousands, the statements
that touch shared rows are walked, and private ones go with the statement before
them: 230 orders of allocation and cancel, 21 of allocation and enrolment, 30 of
two frees.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import AGENT_SLOTS, AGENTS, KERNEL_HISTORY, SESSIONS
from sokovan.adapters.sql.store import SqlStore
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import AgentRecord, KernelMove, SessionRecord
from sokovan.ports.allocation import BatchResult
from sokovan.ports.repositories.sessions import Taker
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import (
    BY_COORDINATOR,
    StoredCluster,
    assignment,
    session_spec,
)
from tests.integration.crowds import store_at, violations
from tests.integration.interleaving import Act, Interleaving, Order, next_choices, orders_of
from tests.integration.stage import ROOM_FOR_ONE, Stage

ORDERS_MAX = 2_000
# What is only read and never written here: where it stands changes nothing.
ONLY_READ = (
    "FROM scaling_groups",
    "FROM catalog_marks",
    "FROM resource_policies",
    "FROM keypairs",
    "FROM users",
    "FROM groups",
    "FROM domains",
    "FROM session_dependencies",
)
# Also the unit's own id, savepoints, and the events on their way out.
PRIVATE = (
    *ONLY_READ,
    "INTO commits",
    "agent_devices",
    "held_devices",
    "SAVEPOINT",
    "INTO outbox",
)


@dataclass(frozen=True)
class End:
    """The end of a scene: the outcomes of both actors, and the rows in the store."""

    outcomes: tuple[str, str]
    statuses: tuple[str, ...]
    used: int
    kernels: int
    incarnation: int
    freed: int = 0


def word(outcome: object) -> str:
    """An outcome as one word."""
    match outcome:
        case BatchResult(allocated=allocated, refused=refused):
            return "allocated" if allocated else type(next(iter(refused.values()))).__name__
        case SessionRecord(status=status):
            return str(status)
        case AgentRecord(info=info):
            return f"incarnation {info.incarnation}"
        case [SessionRecord(status=status)]:
            return f"freed, {status}"
        case _:
            return repr(outcome)


async def ends(store: SqlStore, outcomes: dict[str, tuple[str, str]]) -> dict[str, End]:
    """The end of each scene."""
    agents = sa.select(AGENTS.c.agent_id, AGENTS.c.kernel_count, AGENTS.c.incarnation, AGENT_SLOTS.c.used).join(
        AGENT_SLOTS, AGENT_SLOTS.c.agent_id == AGENTS.c.agent_id
    )
    sessions = sa.select(SESSIONS.c.session_id, SESSIONS.c.status).order_by(SESSIONS.c.session_id)
    gone = sa.select(KERNEL_HISTORY.c.object_id).where(KERNEL_HISTORY.c.trigger == "gone")

    async def work(unit: SqlUnitOfWork) -> dict[str, End]:
        statuses: dict[str, list[str]] = {}
        for row in await unit.transaction.fetch(sessions):
            statuses.setdefault(row.session_id.rstrip("xy"), []).append(row.status)
        freed = [row.object_id.partition(".")[0].rstrip("xy") for row in await unit.transaction.fetch(gone)]
        return {
            row.agent_id: End(
                outcomes=outcomes[row.agent_id],
                statuses=tuple(statuses[row.agent_id]),
                used=row.used,
                kernels=row.kernel_count,
                incarnation=row.incarnation,
                freed=freed.count(row.agent_id),
            )
            for row in await unit.transaction.fetch(agents)
            if row.agent_id in outcomes
        }

    return await store.read(work)


@asynccontextmanager
async def actors(url: str, private: Collection[str]) -> AsyncIterator[Interleaving]:
    stores = [store_at(url, pool_size=1) for _ in range(3)]
    try:
        interleaving = Interleaving(*stores, private=private)
        await interleaving.connect()
        yield interleaving
    finally:
        for store in stores:
            await store.close()


async def check_every_order(
    stage: Stage,
    acts: Callable[[str], tuple[Act, Act]],
    *,
    url: str,
    serial: Sequence[End],
    private: Collection[str] = PRIVATE,
) -> None:
    """Run all orders; each must end as one of the two serial ones does, and the invariants hold."""
    orders: list[Order] = []
    outcomes: dict[str, tuple[str, str]] = {}
    async with actors(url, private) as interleaving:
        # Once without counting: what a process reads only the first time must not be part of one order alone.
        await interleaving.run(acts(await stage.scene(0)), [])
        choices: list[int] | None = []
        while choices is not None:
            scene = await stage.scene(len(orders) + 1)
            order = await interleaving.run(acts(scene), choices)
            first, second = (word(actor.outcome()) for actor in interleaving.actors)
            outcomes[scene] = (first, second)
            orders.append(order)
            choices = next_choices(order.choices)
    found = await ends(stage.cluster.store, outcomes)
    wrong = [(orders[int(name[1:]) - 1].turns, end) for name, end in found.items() if end not in serial]
    assert wrong == []
    assert set(found.values()) == set(serial)
    assert_complete(orders)
    assert await violations(stage.cluster.store) == []


def assert_complete(orders: Sequence[Order]) -> None:
    """The orders are different ones, and as many as there can be."""
    assert len({tuple(order.turns) for order in orders}) == len(orders)
    shapes = []
    for actor in (0, 1):
        alone = next(order for order in orders if order.turns[: len(order.statements[actor])].count(1 - actor) == 0)
        [before] = {place for order in orders for who, place in order.waited if who == actor}
        shapes.append((before, len(alone.statements[actor])))
    assert len(orders) == orders_of(*shapes), shapes
    assert len(orders) <= ORDERS_MAX


def allocate(name: str, agent: str, **options: Any) -> Act:
    return lambda cluster: cluster.place_all([assignment(name, agent, **options)])


async def test_two_allocations_for_one_place_have_one_winner_in_every_order(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await check_every_order(
            Stage(cluster, "xy"),
            lambda scene: (allocate(f"{scene}x", scene), allocate(f"{scene}y", scene)),
            url=migrated_postgres_url,
            serial=[
                End(("allocated", "AllocationRefused"), ("scheduled", "pending"), used=1000, kernels=1, incarnation=1),
                End(("AllocationRefused", "allocated"), ("pending", "scheduled"), used=1000, kernels=1, incarnation=1),
            ],
            private=ONLY_READ,
        )


async def test_an_allocation_and_a_cancel_leave_nothing_half_done_in_any_order(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await check_every_order(
            Stage(cluster, "x"),
            lambda scene: (allocate(f"{scene}x", scene), lambda other: other.stop(f"{scene}x")),
            url=migrated_postgres_url,
            serial=[
                End(("allocated", "terminating"), ("terminating",), used=1000, kernels=1, incarnation=1),
                End(("SessionNotWaiting", "cancelled"), ("cancelled",), used=0, kernels=0, incarnation=1),
            ],
        )


async def test_an_allocation_lands_on_the_incarnation_it_was_decided_for_or_nowhere(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        await check_every_order(
            Stage(cluster, "x"),
            lambda scene: (
                allocate(f"{scene}x", scene, incarnations={scene: 1}),
                lambda other: other.agent(scene, slots=ROOM_FOR_ONE),
            ),
            url=migrated_postgres_url,
            serial=[
                End(("allocated", "incarnation 2"), ("scheduled",), used=1000, kernels=1, incarnation=2),
                End(("AgentChanged", "incarnation 2"), ("pending",), used=0, kernels=0, incarnation=2),
            ],
        )


async def test_two_who_free_the_same_kernel_free_it_once_in_every_order(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        stage = Stage(cluster, "x", ending=True)

        def free(name: str) -> Act:
            kernels = stage.kernels[name]
            return lambda other: other.store.run(
                lambda unit: unit.ledger.free(kernels, FreeProof.NEVER_SENT, BY_COORDINATOR)
            )

        await check_every_order(
            stage,
            lambda scene: (free(f"{scene}x"), free(f"{scene}x")),
            url=migrated_postgres_url,
            serial=[
                End(
                    ("freed, terminated", "freed, terminated"),
                    ("terminated",),
                    used=0,
                    kernels=0,
                    incarnation=1,
                    freed=1,
                )
            ],
        )


def replace_session(name: str) -> Act:
    """End a session and enqueue its successor, as after the loss of an agent."""

    async def work(unit: UnitOfWork) -> SessionRecord:
        await unit.sessions.set_goal(SessionId(name), Goal.FORCE, BY_COORDINATOR)
        successor = session_spec(f"{name}-successor", slots=ROOM_FOR_ONE)
        return await unit.sessions.enqueue(successor, BY_COORDINATOR, in_place_of=SessionId(name))

    return lambda other: other.store.run(work)


async def test_a_dependent_submitted_during_a_replacement_waits_for_the_successor_in_every_order(
    migrated_postgres_url: str,
) -> None:
    def submit(name: str, dependency: str) -> Act:
        return lambda other: other.submit(name, slots=ROOM_FOR_ONE, dependencies=(dependency,))

    # What touches kernels and histories touches those of one actor only.
    private = (*PRIVATE, "INTO session_history", "INTO kernel_history", "kernels", "FROM agents", "requests")
    async with (
        StoredCluster.open(migrated_postgres_url) as cluster,
        actors(migrated_postgres_url, private) as interleaving,
    ):
        stage, count = Stage(cluster, "x"), 0
        choices: list[int] | None = []
        while choices is not None:
            scene = await stage.scene(count)
            acts = (replace_session(f"{scene}x"), submit(f"{scene}y", f"{scene}x"))
            order = await interleaving.run(acts, choices)
            assert [word(actor.outcome()) for actor in interleaving.actors] == ["pending", "pending"], order.turns
            dependent = await cluster.session(f"{scene}y")
            assert dependent.spec.dependencies == (f"{scene}x-successor",), order.turns
            choices, count = next_choices(order.choices), count + 1
        assert 10 < count < ORDERS_MAX


def notice(session: SessionRecord, taker: Taker) -> Act:
    """Move a session as long as its taker is as it was read."""
    moves = [KernelMove(kernel, KernelTrigger.WITHDRAWN) for kernel in session.kernels]
    steps, known, takers = [(BY_COORDINATOR, moves)], {session.session_id: session}, {session.session_id: taker}
    return lambda other: other.store.run(lambda unit: unit.sessions.move_in_steps(steps, known=known, takers=takers))


def end_of(taker: Taker) -> Act:
    """Stop a session, or remove a booking."""
    if isinstance(taker, SessionRecord):
        return lambda other: other.stop(taker.session_id)
    return lambda other: other.store.run(lambda unit: unit.catalog.remove(Booking, taker.name))


@pytest.mark.parametrize("kind", ["session", "booking"])
async def test_of_a_notice_and_the_end_of_its_taker_the_first_commit_counts_in_every_order(
    migrated_postgres_url: str, kind: str
) -> None:
    private = (*PRIVATE, "INTO session_history", "INTO kernel_history", "INTO kernels", "FROM kernels")
    async with (
        StoredCluster.open(migrated_postgres_url) as cluster,
        actors(migrated_postgres_url, private) as interleaving,
    ):
        stage, count = Stage(cluster, "xy"), 0
        choices: list[int] | None = []
        given: set[bool] = set()
        while choices is not None:
            scene = await stage.scene(count)
            victim, session = await cluster.session(f"{scene}x"), await cluster.session(f"{scene}y")
            booking = Booking(f"{scene}b", 0, 10, agents=("a1",), users=("u",))
            await cluster.put(*([booking] if kind == "booking" else []))
            taker = booking if kind == "booking" else session
            acts = (notice(victim, taker), end_of(taker))
            order = await interleaving.run(acts, choices)
            moved, _ = (actor.outcome() for actor in interleaving.actors)
            assert moved in ([], [await cluster.session(victim.session_id)]), order.turns
            # It is given if its own commit was the first one.
            assert bool(moved) == (commits_of(order)[0] == 0), order.turns
            given.add(bool(moved))
            choices, count = next_choices(order.choices), count + 1
        assert given == {True, False}
        assert 5 < count < ORDERS_MAX


def commits_of(order: Order) -> list[int]:
    """The actors in the order of their commits."""
    said = [0, 0]
    committed: list[int] = []
    for actor in order.turns:
        if order.statements[actor][said[actor]] == "COMMIT":
            committed.append(actor)
        said[actor] += 1
    return committed

"""Allocation where something goes wrong between the look and the write."""

import asyncio
from collections.abc import Sequence

import sqlalchemy as sa

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.adapters.sql.allocation.lanes import rounds_of
from sokovan.adapters.sql.allocation.verification import Accepted, LockedState
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.events import Event, NoticeIssued
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.policy import ResourcePolicy
from sokovan.domain.slots import SlotLimits
from sokovan.domain.tenancy import Domain, Owner, User
from sokovan.ports.allocation import (
    AllocationContext,
    AllocationRefused,
    AllocationResult,
    Assignment,
    QuotaPassed,
)
from sokovan.testing.clock import until
from sokovan.testing.contracts.repositories.ledger import conserved, held
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster, assignment

CONTEXT = AllocationContext()


class MismatchFor(RepositoryAllocator):
    """An allocator whose database refuses to take the amounts of one session."""

    unlucky = "unlucky"

    async def _write(
        self, transaction: Transaction, accepted: Sequence[Accepted], facts: LockedState, context: AllocationContext
    ) -> list[AllocationResult]:
        results = await super()._write(transaction, accepted, facts, context)
        if any(one.session.session_id == self.unlucky for one in accepted):
            raise LedgerMismatch("the database refused")
        return results


class Noticing(RepositoryAllocator):
    """An allocator that says something of its own with each commit."""

    def notices(self, results: Sequence[AllocationResult], now_ms: int) -> Sequence[Event]:
        names = ",".join(result.session_id for result in results)
        return [NoticeIssued(at_ms=now_ms, topic="allocated", about=names)]


async def waiting(cluster: StoredCluster, *names: str) -> list[Assignment]:
    await cluster.agent("a1")
    for name in names:
        await cluster.submit(name)
    return [assignment(name, "a1") for name in names]


async def test_where_the_database_refuses_a_batch_each_is_tried_alone() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "unlucky", "s2")
        await published(cluster)
        batch = await MismatchFor(cluster.store).allocate_batch(wanted, CONTEXT)
        assert [result.session_id for result in batch.allocated] == ["s1", "s2"]
        error = batch.refused[SessionId("unlucky")]
        assert isinstance(error, AllocationRefused)
        assert "refused" in error.problem
        assert (await cluster.session("unlucky")).status is SessionStatus.PENDING
        assert {line.kernel_id for line in await held(cluster, "a1")} == {"s1.0", "s2.0"}
        await conserved(cluster, "a1")
        told = {str(getattr(event, "session_id", "")) for event in await published(cluster)}
        assert told == {"s1", "s2"}


async def test_a_store_that_contradicts_itself_costs_those_who_meet_the_contradiction() -> None:
    async with StoredCluster.open() as cluster:
        await waiting(cluster, "s1")
        for name in ("first", "second"):
            await cluster.submit(name, slots={"cuda.device": 1})
        await cluster.place("first", "a1")
        async with cluster.store.database.writing() as connection:
            # A hand says that the device is free, while its line says who holds it.
            await connection.execute(sa.text("UPDATE agent_devices SET used = 0"))
            await connection.commit()
        batch = await cluster.place_all([assignment("second", "a1"), assignment("s1", "a1")])
        assert [result.session_id for result in batch.allocated] == ["s1"]
        assert isinstance(batch.refused[SessionId("second")], AllocationRefused)
        await conserved(cluster, "a1")


async def test_two_first_allocations_of_an_owner_at_once_keep_its_limit(postgres_url: str) -> None:
    async with StoredCluster.open(postgres_url) as cluster:
        policy = ResourcePolicy("p", slots_max=SlotLimits({"cpu": 1000}))
        await cluster.put(policy, Domain("d"), User("u", "d", policy="p"))
        for number in (1, 2):
            await cluster.agent(f"a{number}")
            await cluster.submit(f"s{number}", owner=Owner(user="u"))
        entered, leave = asyncio.Event(), asyncio.Event()

        async def first(unit: SqlUnitOfWork) -> int:
            batch = await cluster.allocator._apply(unit.transaction, [assignment("s1", "a1")], CONTEXT)
            entered.set()
            await leave.wait()
            return len(batch.allocated)

        holding = asyncio.ensure_future(cluster.store.run_sql(first))
        await entered.wait()
        # The owner has no row yet that could be locked, so the second sees the sum only when it writes its own part.
        second = asyncio.ensure_future(cluster.place("s2", "a2"))
        await until(lambda: somebody_waits(cluster), elapse=cluster.elapse)
        leave.set()
        assert await holding == 1
        assert isinstance((await second).refused[SessionId("s2")], QuotaPassed)
        assert not await held(cluster, "a2")


async def somebody_waits(cluster: StoredCluster) -> bool:
    statement = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    async with cluster.store.database.reading() as connection:
        return bool((await connection.execute(statement)).scalar_one())


async def test_notices_leave_with_the_allocation_and_only_then() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "s2")
        await published(cluster)
        await Noticing(cluster.store).allocate_batch(wanted, CONTEXT)
        told = [event.about for event in await published(cluster) if isinstance(event, NoticeIssued)]
        assert told == ["s1,s2"]


async def test_callers_that_arrive_together_share_one_transaction() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "s2", "s3")
        await published(cluster)
        noticing = Noticing(cluster.store)
        await asyncio.gather(*(noticing.allocate_batch([one], CONTEXT) for one in wanted))
        told = [event.about for event in await published(cluster) if isinstance(event, NoticeIssued)]
        assert told == ["s1,s2,s3"]


def test_callers_of_one_session_do_not_meet_in_a_round() -> None:
    groups = [["s1", "s2"], ["s3"], ["s2", "s4"], ["s4"], ["s5"]]
    assert rounds_of([[assignment(name) for name in names] for names in groups]) == [[0, 1, 4], [2], [3]]

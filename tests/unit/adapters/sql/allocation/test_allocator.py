"""The allocator: refused writes, concurrent callers, partitions of a batch."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.sql.allocation.allocator import (
    RepositoryAllocator,
    conflict_free_rounds,
    merge_results,
    partition_by_agents,
    result_for_caller,
)
from sokovan.adapters.sql.allocation.verification import Accepted, LockedState
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.transaction import Transaction
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.booking import Booking
from sokovan.domain.events import Event, NoticeIssued
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Owner, User
from sokovan.domain.slots import SlotLimits
from sokovan.ports.allocation import (
    AllocationContext,
    AllocationRefused,
    AllocationResult,
    Assignment,
    BatchResult,
    QuotaPassed,
)
from sokovan.testing.clock import until
from sokovan.testing.contracts.repositories.ledger import conserved, held
from sokovan.testing.contracts.storage import published
from sokovan.testing.stored_cluster import StoredCluster, assignment

CONTEXT = AllocationContext()
AT = datetime(2026, 1, 1, tzinfo=UTC)
AGENTS = st.sampled_from([f"a{number}" for number in range(6)])
BATCHES = st.lists(st.lists(AGENTS, min_size=1, max_size=4), max_size=12).map(
    lambda gangs: [assignment(f"s{number}", *agents) for number, agents in enumerate(gangs)]
)


class MismatchFor(RepositoryAllocator):
    """An allocator whose database refuses the amounts of one session."""

    refused_id = "refused_id"

    async def _write(
        self, transaction: Transaction, accepted: Sequence[Accepted], state: LockedState, context: AllocationContext
    ) -> list[AllocationResult]:
        results = await super()._write(transaction, accepted, state, context)
        if any(one.session.session_id == self.refused_id for one in accepted):
            raise LedgerMismatch("the database refused")
        return results


class Noticing(RepositoryAllocator):
    """An allocator that adds an event to each commit."""

    def notices(self, results: Sequence[AllocationResult], now_ms: int) -> Sequence[Event]:
        names = ",".join(result.session_id for result in results)
        return [NoticeIssued(at_ms=now_ms, topic="allocated", about=names)]


async def waiting(cluster: StoredCluster, *names: str) -> list[Assignment]:
    await cluster.agent("a1")
    for name in names:
        await cluster.submit(name)
    return [assignment(name, "a1") for name in names]


@pytest.mark.slow
async def test_a_batch_that_the_database_refuses_is_retried_one_by_one() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "refused_id", "s2")
        await published(cluster)
        batch = await MismatchFor(cluster.store).allocate_batch(wanted, CONTEXT)
        assert [result.session_id for result in batch.allocated] == ["s1", "s2"]
        error = batch.refused[SessionId("refused_id")]
        assert isinstance(error, AllocationRefused)
        assert "refused" in error.problem
        assert (await cluster.session("refused_id")).status is SessionStatus.PENDING
        assert {line.kernel_id for line in await held(cluster, "a1")} == {"s1.0", "s2.0"}
        await conserved(cluster, "a1")
        published_ids = {str(getattr(event, "session_id", "")) for event in await published(cluster)}
        assert published_ids == {"s1", "s2"}


@pytest.mark.slow
async def test_an_inconsistent_store_affects_only_the_sessions_that_meet_the_inconsistency() -> None:
    async with StoredCluster.open() as cluster:
        await waiting(cluster, "s1")
        for name in ("first", "second"):
            await cluster.submit(name, slots={"cuda.device": 1})
        await cluster.place("first", "a1")
        async with cluster.store.database.writing() as connection:
            # Inconsistent by hand: the device is free, but its ledger row has a holder.
            await connection.execute(sa.text("UPDATE agent_devices SET used = 0"))
            await connection.commit()
        batch = await cluster.place_all([assignment("second", "a1"), assignment("s1", "a1")])
        assert [result.session_id for result in batch.allocated] == ["s1"]
        assert isinstance(batch.refused[SessionId("second")], AllocationRefused)
        await conserved(cluster, "a1")


async def test_two_first_allocations_of_an_owner_at_once_keep_its_limit(migrated_postgres_url: str) -> None:
    async with StoredCluster.open(migrated_postgres_url) as cluster:
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
        await until(lambda: a_lock_is_awaited(cluster), elapse=cluster.elapse)
        leave.set()
        assert await holding == 1
        assert isinstance((await second).refused[SessionId("s2")], QuotaPassed)
        assert not await held(cluster, "a2")


async def a_lock_is_awaited(cluster: StoredCluster) -> bool:
    statement = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    async with cluster.store.database.reading() as connection:
        return bool((await connection.execute(statement)).scalar_one())


async def test_notices_leave_with_the_allocation_and_only_then() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "s2")
        await published(cluster)
        await Noticing(cluster.store).allocate_batch(wanted, CONTEXT)
        published_ids = [event.about for event in await published(cluster) if isinstance(event, NoticeIssued)]
        assert published_ids == ["s1,s2"]


async def test_callers_that_arrive_together_share_one_transaction() -> None:
    async with StoredCluster.open() as cluster:
        wanted = await waiting(cluster, "s1", "s2", "s3")
        await published(cluster)
        noticing = Noticing(cluster.store)
        await asyncio.gather(*(noticing.allocate_batch([one], CONTEXT) for one in wanted))
        published_ids = [event.about for event in await published(cluster) if isinstance(event, NoticeIssued)]
        assert published_ids == ["s1,s2,s3"]


def test_callers_of_one_session_are_in_different_rounds() -> None:
    groups = [["s1", "s2"], ["s3"], ["s2", "s4"], ["s4"], ["s5"]]
    assert conflict_free_rounds([[assignment(name) for name in names] for names in groups]) == [[0, 1, 4], [2], [3]]


def test_single_kernels_are_partitioned_by_their_agents() -> None:
    batch = [assignment("s0", "a"), assignment("s1", "b"), assignment("s2", "a"), assignment("s3", "b")]
    assert [[one.session_id for one in part] for part in partition_by_agents(batch, count=2)] == [
        ["s0", "s2"],
        ["s1", "s3"],
    ]


def test_assignments_connected_through_a_gang_stay_together() -> None:
    batch = [assignment("s0", "a"), assignment("s1", "b"), assignment("gang", "a", "b")]
    assert partition_by_agents(batch, count=2) == [batch]


@given(BATCHES, st.integers(1, 4))
def test_parts_share_no_agent_lose_no_assignment_and_keep_the_order(batch: list, count: int) -> None:  # type: ignore[type-arg]  # drawn above
    parts = partition_by_agents(batch, count=count)
    agents = [{agent for one in part for _, agent in one.kernels} for part in parts]
    assert len(parts) <= count
    assert sum(len(some) for some in agents) == len(set().union(*agents))
    assert sorted(one.session_id for part in parts for one in part) == sorted(one.session_id for one in batch)
    for part in parts:
        assert [one for one in batch if one in part] == part


def result(name: str) -> AllocationResult:
    return AllocationResult(SessionId(name), AT, (), {})


def refusal(name: str) -> AllocationRefused:
    return AllocationRefused(session_id=name, problem="taken")


def test_each_caller_gets_its_own_sessions_only_and_in_its_own_order() -> None:
    whole = BatchResult((result("a"), result("b"), result("c")), {SessionId("d"): refusal("d")})
    by_session = {one.session_id: one for one in whole.allocated}
    mine = result_for_caller([assignment("c", "x"), assignment("d", "x"), assignment("a", "x")], by_session, whole)
    assert [one.session_id for one in mine.allocated] == ["c", "a"]
    assert list(mine.refused) == ["d"]


def test_results_of_parts_are_merged_in_the_order_of_the_batch() -> None:
    batch = [assignment(name, "x") for name in ("a", "b", "c", "d")]
    parts = [BatchResult((result("b"), result("d")), {}), BatchResult((result("a"),), {SessionId("c"): refusal("c")})]
    whole = merge_results(batch, parts)
    assert [one.session_id for one in whole.allocated] == ["a", "b", "d"]
    assert list(whole.refused) == ["c"]


async def test_a_placement_from_before_a_booking_is_refused_and_one_that_knows_it_is_not() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        await cluster.snapshots.refresh()
        context = AllocationContext(bookings=cluster.snapshots.marks.bookings)
        await cluster.put(Booking("demo", 0, 10, agents=("a1",), users=("u",)))
        refused = (await cluster.place("s1", "a1", context=context)).refused
        assert "the bookings have changed since the decision" in refused[SessionId("s1")].problem
        await cluster.snapshots.refresh()
        knowing = AllocationContext(bookings=cluster.snapshots.marks.bookings)
        assert not (await cluster.place("s1", "a1", context=knowing)).refused

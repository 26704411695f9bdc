"""Rows written for accepted assignments."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.allocation.port_leases import assign_ranks
from sokovan.adapters.sql.allocation.verification import LockedState
from sokovan.adapters.sql.allocation.writing import LedgerRows, write_allocations
from sokovan.adapters.sql.repositories.sessions.session_rows import lock_sessions
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.rows import MANY
from sokovan.adapters.sql.schema.tables import HELD_DEVICES
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.ports.allocation import AllocationContext, Assignment
from sokovan.testing.contracts.repositories.ledger import rows_of
from sokovan.testing.stored_cluster import StoredCluster


async def test_kernels_placed_together_are_ranked_by_index_and_later_ones_follow() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", kernels=4, min_kernels=1)
        for indexes in ((3, 1), (2, 0)):
            pairs = tuple((KernelId(f"s.{index}"), AgentId("a1")) for index in indexes)
            await cluster.place_all([Assignment(SessionId("s"), pairs)])
        assert [kernel.rank for kernel in (await cluster.session("s")).kernels] == [2, 0, 3, 1]


async def ranks_after(*, kept: bool) -> list[int | None]:
    """The ranks of three kernels; two had others before, one of which may still be placed."""
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", kernels=3, min_kernels=1)

        async def work(unit: SqlUnitOfWork) -> list[int | None]:
            session = (await lock_sessions(unit.transaction, ["s"]))["s"]
            first, second, third = session.kernels.values()
            first.rank, second.rank = 1, 0
            if kept:
                second.agent_id = AgentId("a1")
            assign_ranks(session, [one.kernel_id for one in (third, second, first) if one.agent_id is None])
            return [one.rank for one in (first, second, third)]

        return await cluster.store.run_sql(work)


async def test_a_kernel_that_is_placed_again_keeps_its_rank() -> None:
    assert await ranks_after(kept=True) == [1, 0, 2]


async def test_a_session_that_starts_again_as_a_whole_is_ranked_anew() -> None:
    assert await ranks_after(kept=False) == [0, 1, 2]


async def test_nothing_accepted_is_nothing_written() -> None:
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> int:
            state = LockedState(agents={}, sessions={}, used={}, limits={}, unmet=())
            return len(await write_allocations(unit.transaction, [], state, AllocationContext()))

        assert await cluster.store.run_sql(work) == 0


async def test_kernels_know_their_agent_devices_and_incarnation_and_the_session_its_hypernode() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.agent("a1")
        await cluster.submit("s", kernels=2, slots={"cpu": 1000, "cuda.device": 1})
        await cluster.place("s", "a1", "a1")
        session = await cluster.session("s")
        assert [kernel.status for kernel in session.kernels] == [KernelStatus.SCHEDULED] * 2
        assert [kernel.incarnation for kernel in session.kernels] == [2, 2]
        assert [kernel.devices for kernel in session.kernels] == [
            {"cuda.device": ("gpu0",)},
            {"cuda.device": ("gpu1",)},
        ]


async def written(cluster: StoredCluster, rows: LedgerRows) -> int:
    async def work(unit: SqlUnitOfWork) -> int:
        await rows.write(unit.transaction)
        return unit.now_ms

    return await cluster.store.run_sql(work)


async def test_ledger_rows_have_the_time_of_their_transaction(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            rows = LedgerRows()
            rows.slots = [
                ("s1.0", 1, "cpu", "a1", 1, 2**53),
                ("s1.0", 1, "mem", "a1", 1, 5),
                ("s1.1", 1, "cpu", "a1", 1, 7),
            ]
            rows.devices = [("s1.0", 1, "gpu0", "a1", 1, True), ("s1.1", 1, "gpu1", "a1", 3, False)]
            now = await written(cluster, rows)
            found = await rows_of(cluster, "s1.0")
            assert [(line.slot, line.amount, line.held_ms, line.freed_ms) for line in found] == [
                ("cpu", 2**53, now, None),
                ("mem", 5, now, None),
            ]
            devices = await cluster.store.read(
                lambda unit: unit.transaction.fetch(sa.select(HELD_DEVICES).order_by(HELD_DEVICES.c.device_id))
            )
            assert [(row.device_id, row.units, bool(row.exclusive)) for row in devices] == [
                ("gpu0", 1, True),
                ("gpu1", 3, False),
            ]


async def test_no_rows_are_no_statement() -> None:
    async with StoredCluster.open() as cluster:
        await written(cluster, LedgerRows())


def test_many_slots_are_one_statement_for_each_slot_on_sqlite_only() -> None:
    rows = LedgerRows()
    rows.slots = [(f"s.{index}", 1, slot, "a1", 1, 1) for index in range(MANY) for slot in ("cpu", "mem")]
    assert [len(part) for part in rows._slot_lines(postgresql=False)] == [MANY, MANY]
    assert [len(part) for part in rows._slot_lines(postgresql=True)] == [2 * MANY]


async def test_a_device_that_is_held_exclusively_is_a_mismatch(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            rows = LedgerRows()
            rows.devices = [("s1.0", 1, "gpu0", "a1", 1, True), ("s1.1", 1, "gpu0", "a1", 1, True)]
            with pytest.raises(LedgerMismatch):
                await written(cluster, rows)

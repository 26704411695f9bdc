"""Rows written for accepted assignments."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.allocation.verification import LockedState
from sokovan.adapters.sql.allocation.writing import LedgerRows, write_allocations
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.schema.tables import HELD_DEVICES
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.ports.allocation import AllocationContext
from sokovan.testing.contracts.repositories.ledger import rows_of
from sokovan.testing.stored_cluster import StoredCluster


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


async def test_ledger_rows_have_the_time_of_their_transaction(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            rows = LedgerRows()
            rows.slots = [("s1.0", "cpu", "a1", 1, 2**53), ("s1.0", "mem", "a1", 1, 5), ("s1.1", "cpu", "a1", 1, 7)]
            rows.devices = [("s1.0", "gpu0", "a1", 1, True), ("s1.1", "gpu1", "a1", 3, False)]
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


async def test_a_device_that_is_held_exclusively_is_a_mismatch(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            rows = LedgerRows()
            rows.devices = [("s1.0", "gpu0", "a1", 1, True), ("s1.1", "gpu0", "a1", 1, True)]
            with pytest.raises(LedgerMismatch):
                await written(cluster, rows)

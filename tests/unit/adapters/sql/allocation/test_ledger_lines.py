"""New lines of the ledger, in one statement per table."""

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.allocation.ledger_lines import LedgerLines
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.adapters.sql.schema.tables import HELD_DEVICES
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.contracts.repositories.ledger import lines_of
from sokovan.testing.stored_cluster import StoredCluster


async def written(cluster: StoredCluster, lines: LedgerLines) -> int:
    async def work(unit: SqlUnitOfWork) -> int:
        await lines.write(unit.transaction)
        return unit.now_ms

    return await cluster.store.run_sql(work)


async def test_lines_are_written_with_the_time_of_their_transaction(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            lines = LedgerLines()
            lines.slots = [("s1.0", "cpu", "a1", 1, 2**53), ("s1.0", "mem", "a1", 1, 5), ("s1.1", "cpu", "a1", 1, 7)]
            lines.devices = [("s1.0", "gpu0", "a1", 1, True), ("s1.1", "gpu1", "a1", 3, False)]
            now = await written(cluster, lines)
            found = await lines_of(cluster, "s1.0")
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


async def test_no_lines_are_no_statement() -> None:
    async with StoredCluster.open() as cluster:
        await written(cluster, LedgerLines())


async def test_a_device_that_somebody_holds_whole_is_a_mismatch(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster:
            await cluster.agent("a1")
            await cluster.submit("s1", kernels=2)
            lines = LedgerLines()
            lines.devices = [("s1.0", "gpu0", "a1", 1, True), ("s1.1", "gpu0", "a1", 1, True)]
            with pytest.raises(LedgerMismatch):
                await written(cluster, lines)

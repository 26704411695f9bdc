"""Checks of a cluster: stored state and violated invariants."""

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import AGENT_SLOTS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.agent.journal_records import KernelKey
from sokovan.domain.ids import KernelId
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def test_the_stored_state_is_read() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s")
        await cluster.settle()
        assert await cluster.status("s") == (await cluster.session("s")).status.value == "running"
        assert await cluster.used("a1") == {"cpu": 1000, "mem": 1 << 30}
        assert await cluster.codes("s") == ["allocated"]
        assert len(await cluster.history("s", kernels=True)) > len(await cluster.history("s"))


async def test_a_violated_invariant_is_reported() -> None:
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")

        async def set_used(unit: SqlUnitOfWork, used: int) -> None:
            await unit.transaction.execute(sa.update(AGENT_SLOTS).values(used=used))

        await cluster.store.run_sql(lambda unit: set_used(unit, 1))
        with pytest.raises(AssertionError, match="I1"):
            await cluster.check_invariants()
        await cluster.store.run_sql(lambda unit: set_used(unit, 0))


async def test_a_kernel_that_was_started_twice_is_reported() -> None:
    async with OrchestratedCluster.open() as cluster:
        agent = await cluster.agent("a1")
        key = KernelKey(KernelId("k"), 1)
        agent.started[key] = 2
        with pytest.raises(AssertionError, match="started twice"):
            await cluster.check_invariants()
        del agent.started[key]

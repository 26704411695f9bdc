"""What is written for accepted assignments, and what is not written for nobody."""

from __future__ import annotations

from sokovan.adapters.sql.allocation.verification import LockedState
from sokovan.adapters.sql.allocation.writing import write_allocations
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.ports.allocation import AllocationContext
from sokovan.testing.stored_cluster import StoredCluster


async def test_nothing_accepted_is_nothing_written() -> None:
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> int:
            facts = LockedState(agents={}, sessions={}, used={}, limits={}, unmet=())
            return len(await write_allocations(unit.transaction, [], facts, AllocationContext()))

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

"""Carried state of a cycle, written and read back."""

from sokovan.adapters.sql.snapshots.carried_state import read_carried, write_carried
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.snapshot import Reservation
from sokovan.testing.stored_cluster import StoredCluster

FIRST, SECOND = ScalingGroupName("first"), ScalingGroupName("second")


def reservation(name: str, *order: int, starts_ms: int | None = None) -> Reservation:
    kernels = tuple((KernelId(f"{name}.{index}"), AgentId(f"a{index}")) for index in order)
    return Reservation(SessionId(name), kernels, starts_ms)


async def write(cluster: StoredCluster, group: ScalingGroupName, state: CarriedState) -> None:
    async def work(unit: SqlUnitOfWork) -> None:
        await write_carried(unit, group, state)

    await cluster.store.run_sql(work)


async def test_sessions_and_kernels_keep_the_order_of_the_plan() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("s1", "s2"):
            await cluster.submit(name, kernels=12)
        kept = (reservation("s2", 11, 2, 10), reservation("s1", 1, 0, starts_ms=90_000))
        await write(cluster, FIRST, CarriedState(reservations=kept, cursors={"x": AgentId("a1")}))
        found = await cluster.store.read(lambda unit: read_carried(unit.transaction))
        assert found == {FIRST: CarriedState(kept, {"x": AgentId("a1")})}


async def test_what_is_left_replaces_what_was_left_in_this_group_alone() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1", kernels=2)
        for group, index in ((FIRST, 0), (SECOND, 1)):
            await write(cluster, group, CarriedState(reservations=(reservation("s1", index),)))
        await write(cluster, FIRST, CarriedState(cursors={"x": AgentId("a1"), "y": AgentId("a2")}))
        found = await cluster.store.read(lambda unit: read_carried(unit.transaction))
        assert found == {
            SECOND: CarriedState((reservation("s1", 1),)),
            FIRST: CarriedState(cursors={"x": AgentId("a1"), "y": AgentId("a2")}),
        }
        for group in (FIRST, SECOND):
            await write(cluster, group, CarriedState())
        assert await cluster.store.read(lambda unit: read_carried(unit.transaction)) == {}

"""Changes of stored specs; the contract of sessions checks what they do."""

from __future__ import annotations

from dataclasses import replace

from sokovan.adapters.sql.repositories.sessions.stored_specs import open_gates, replace_dependency, write_specs
from sokovan.adapters.sql.schema.tables import DEPENDENCIES
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.testing.stored_cluster import BY_USER, StoredCluster


async def test_a_new_spec_changes_the_versions_of_session_and_kernels() -> None:
    async with StoredCluster.open() as cluster:
        before = await cluster.submit("s", kernels=2)

        async def work(unit: SqlUnitOfWork) -> None:
            await write_specs(unit.transaction, [])
            await write_specs(unit.transaction, [replace(before.spec, priority=5)])

        await cluster.store.run_sql(work)

        after = await cluster.session("s")
        assert after.spec.priority == 5
        assert after.version == before.version + 1
        assert [kernel.version for kernel in after.kernels] == [kernel.version + 1 for kernel in before.kernels]


async def test_gates_that_are_not_closed_open_nothing() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s", gates=("data",))

        async def work(unit: SqlUnitOfWork) -> list[SessionId]:
            return await open_gates(unit.transaction, [SessionId("s"), SessionId("missing")], {"other"})

        assert await cluster.store.run_sql(work) == []


async def with_dependency_replaced(cluster: StoredCluster, before: str, after: str) -> set[tuple[str, str]]:
    async def work(unit: SqlUnitOfWork) -> set[tuple[str, str]]:
        await replace_dependency(unit.transaction, SessionId(before), SessionId(after))
        return {(row.session_id, row.depends_on) for row in await unit.transaction.fetch(DEPENDENCIES.select())}

    return await cluster.store.run_sql(work)


async def test_only_pending_sessions_get_the_replaced_dependency() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("first", "replacement", "else"):
            await cluster.submit(name)
        for name in ("waits", "left"):
            await cluster.submit(name, dependencies=(SessionId("first"), SessionId("else")))
        await cluster.store.run(lambda unit: unit.sessions.set_goal(SessionId("left"), Goal.STOP, BY_USER))
        pairs = await with_dependency_replaced(cluster, "first", "replacement")
        assert pairs == {("waits", "replacement"), ("waits", "else"), ("left", "first"), ("left", "else")}
        left = await cluster.store.read(lambda unit: unit.sessions.get(SessionId("left")))
        assert left.spec.dependencies == ("first", "else")

"""Times of checkpoints; the contract of sessions checks what they do."""

from __future__ import annotations

from sokovan.adapters.sql.repositories.sessions.checkpoints import save
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import SessionId
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_checkpoint_is_a_change_that_snapshots_see() -> None:
    async with StoredCluster.open() as cluster:
        before = await cluster.submit("s")
        mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))

        async def work(unit: SqlUnitOfWork) -> list[SessionId]:
            return await save(unit.transaction, {SessionId("s"): 5, SessionId("unknown"): 5})

        assert await cluster.store.run_sql(work) == ["s"]
        _, changed = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
        assert changed == {"s": before.version + 1}

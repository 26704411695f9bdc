"""Names of sessions and arrays; the contract of arrays checks them with concurrent writers."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.repositories.sessions.session_names import lock_names, require_free_name
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import Conflict
from sokovan.testing.stored_cluster import StoredCluster


async def test_a_name_is_free_again_after_the_end_of_its_session() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s", name="train")

        async def work(unit: SqlUnitOfWork) -> None:
            await lock_names(unit.transaction, [("default", "train"), ("default", "")])
            await require_free_name(unit.transaction, "default", "train")

        with pytest.raises(Conflict, match="user default has a session 'train' already: s"):
            await cluster.store.run_sql(work)
        await cluster.stop("s")
        await cluster.store.run_sql(work)

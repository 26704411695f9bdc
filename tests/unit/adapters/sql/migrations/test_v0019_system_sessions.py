"""The migration takes running system sessions out of the usage of their owners."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0019_system_sessions
from sokovan.domain.owners.policy import Scope
from sokovan.domain.session import SessionType
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


async def usage(cluster: StoredCluster) -> list[object]:
    """What all owners use."""

    async def work(unit: UnitOfWork) -> list[object]:
        return [await unit.ledger.usage(scope, "default") for scope in Scope]

    return await cluster.store.read(work)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_system_sessions_count_before_the_migration_and_not_after_it(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    assert v0019_system_sessions.revision == "0019"
    async with StoredCluster.open(backend.url(request)) as cluster:
        await cluster.agent("a")
        for name, kind in (("s1", SessionType.BATCH), ("s2", SessionType.SYSTEM)):
            await cluster.submit(name, session_type=kind)
            await cluster.place(name, "a")
        after = await usage(cluster)
        database = cluster.store.database
        await migration.downgrade(database, str(v0019_system_sessions.down_revision))
        before = await usage(cluster)
        await migration.upgrade(database)
        assert await usage(cluster) == after
    assert before != after

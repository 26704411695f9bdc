"""Agents of an existing database are healthy after the migration."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql import migration
from sokovan.adapters.sql.migrations import v0014_agent_health
from sokovan.domain.cluster.agent_health import HEALTHY, AgentHealth
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.migrations.stepping import Backend


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
async def test_agents_that_were_stored_before_are_healthy(backend: Backend, request: pytest.FixtureRequest) -> None:
    async with StoredCluster.open(backend.url(request)) as cluster:
        agent, database = await cluster.agent("a1"), cluster.store.database
        await cluster.store.run(lambda unit: unit.fleet.set_health(agent, AgentHealth(failing_ms=1)))
        await migration.downgrade(database, v0014_agent_health.down_revision or "base")
        async with database.reading() as connection:
            columns = await connection.run_sync(lambda sync: sa.inspect(sync).get_columns("agents"))
        assert "health" not in {column["name"] for column in columns}
        await migration.upgrade(database)
        after = await cluster.store.read(lambda unit: unit.fleet.get(agent.info.agent_id))
        assert after.info.health == HEALTHY

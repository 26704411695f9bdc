"""The tables of serving: constraints that the repositories rely on."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from sokovan.testing.contracts.repositories.serving import created, rolled
from sokovan.testing.stored_cluster import StoredCluster


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE deployments SET replicas_desired = -1",
        "UPDATE deployments SET ended_ms = 1",
        "UPDATE deployments SET status = 'running'",
        "UPDATE rollouts SET status = 'completed'",
        "DELETE FROM deployments",
    ],
)
async def test_a_row_that_contradicts_itself_is_refused(statement: str) -> None:
    async with StoredCluster.open() as cluster:
        await rolled(cluster, (await created(cluster)).deployment_id)
        async with cluster.store.database.writing() as connection:
            with pytest.raises(IntegrityError):
                await connection.execute(sa.text(statement))

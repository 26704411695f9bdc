"""Housekeeping: gauges, and pruning of commit marks."""

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.schema.tables import COMMITS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


@pytest.mark.slow
async def test_a_long_cycle_publishes_gauges(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("running")
    await cluster.submit("waiting", slots={"cpu": 99_000})
    await cluster.settle()
    await cluster.pass_time(11)
    telemetry = cluster.telemetry
    assert telemetry.gauged("sessions", status="running") == 1
    assert telemetry.gauged("sessions", status="pending") == 1
    assert telemetry.gauged("sessions", status="creating") == 0
    assert telemetry.gauged("agents", status="alive") == 1
    assert telemetry.gauged("queue_length", queue="scheduling") == 1
    assert telemetry.gauged("requests_under_way") == 0


@pytest.mark.slow
async def test_marks_of_old_commits_are_thrown_away(cluster: OrchestratedCluster) -> None:
    async def marks(unit: SqlUnitOfWork) -> int:
        row = await unit.transaction.first(sa.select(sa.func.count()).select_from(COMMITS))
        return 0 if row is None else row[0]

    await cluster.agent("a1")
    for number in range(20):
        await cluster.submit(f"s{number}", slots={"cpu": 10})
    await cluster.settle()
    before = await cluster.store.read(marks)
    await cluster.clock.advance(700)
    await cluster.pass_time(70, step_s=10)
    assert await cluster.store.read(marks) < before

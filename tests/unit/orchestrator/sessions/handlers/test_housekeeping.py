"""Housekeeping: gauges, and pruning of commit marks."""

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.schema.tables import COMMITS
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.arrays import read_array
from sokovan.domain.ids import ArrayId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.session_request import SessionRequest
from sokovan.orchestrator.sessions import array_control
from sokovan.orchestrator.sessions.array_control import ArrayStorage
from sokovan.ports.repositories.sessions import NewSession, SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_USER, session_spec


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


@pytest.mark.slow
async def test_an_array_whose_manager_died_is_completed(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_control, "STORED_TOGETHER", 2)
    request = SessionRequest(array=read_array("0-6"))
    first = session_spec("first", name="sweep[0]", array=read_array("0-6").first_member(ArrayId("a-1")))

    async def begin(unit: UnitOfWork) -> None:
        ids = SortableIds(cluster.clock)
        await ArrayStorage(cluster.store, ids).begin(unit, NewSession(first, BY_USER), request)

    async def pending() -> int:
        counts = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=99))
        return sum(one.status is SessionStatus.PENDING for one in counts)

    await cluster.store.run(begin)
    await cluster.pass_time(20, step_s=10)
    assert await pending() == 2, "a submission under way is not interrupted"
    await cluster.pass_time(30, step_s=10)
    assert await pending() == 7
    assert not cluster.failures

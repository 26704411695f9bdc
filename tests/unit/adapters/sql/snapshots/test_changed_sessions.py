"""A refresh reads all live sessions first, then changed ones."""

from __future__ import annotations

from sokovan.adapters.sql.snapshots.changed_sessions import ChangedSessions
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


async def _read(cluster: StoredCluster, view: SystemView, *, since: int | None) -> list[str]:
    async def work(unit: SqlUnitOfWork) -> None:
        await ChangedSessions().refresh(unit.transaction, view, since=since)

    await cluster.store.read(work)
    view.changed()
    return sorted(session.session_id for session in view.snapshot(DEFAULT_GROUP).sessions)


async def _mark(cluster: StoredCluster) -> int:
    async def work(unit: SqlUnitOfWork) -> int:
        return unit.transaction.stamp

    return await cluster.store.run_sql(work)


def _view() -> SystemView:
    view = SystemView()
    view.set_scaling_groups([ScalingGroup(name=DEFAULT_GROUP)])
    return view


async def test_at_first_every_session_that_has_not_ended_is_read() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("waits")
        await cluster.submit("over")
        await cluster.stop("over")
        assert await _read(cluster, _view(), since=None) == ["waits"]


async def test_after_that_only_what_was_written_since_the_mark() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("before")
        mark = await _mark(cluster)
        await cluster.submit("after")
        assert await _read(cluster, _view(), since=mark) == ["after"]


async def test_a_session_ended_by_force_leaves_and_its_kernels_are_still_being_released() -> None:
    async with StoredCluster.open() as cluster:
        agent = await cluster.agent("a1")
        await cluster.submit("s")
        await cluster.place("s", "a1")
        await cluster.start("s")
        await cluster.stop("s", Goal.FORCE)
        view = _view()
        view.put_agent((await cluster.store.read(lambda unit: unit.fleet.get(agent.info.agent_id))).info)
        assert await _read(cluster, view, since=None) == []
        (seen,) = view.snapshot(DEFAULT_GROUP).agents
        assert seen.releasing_slots == seen.occupied_slots
        assert seen.releasing_count == 1


async def test_results_are_read_of_dependencies_only_and_by_their_ids() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("over", "other"):
            await cluster.submit(name)
            await cluster.stop(name)
        view, mark = _view(), await _mark(cluster)
        await cluster.submit("alone")
        with recorded_statements(cluster) as statements:
            await _read(cluster, view, since=mark)
        # SQLite read every session that had ended, to find those of which there were none.
        assert not any("sessions.result FROM sessions" in one for one in statements), statements
        assert view.outcomes == {}
        await cluster.submit("dependent", dependencies=(SessionId("over"), SessionId("alone")))
        with recorded_statements(cluster) as statements:
            await _read(cluster, view, since=mark)
        [asked] = [one for one in statements if "sessions.result FROM sessions" in one]
        assert "session_dependencies" not in asked
        assert view.outcomes == {"over": False}

"""The kernels of a large session are read again only if their places have changed."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.snapshots import kernel_digests
from sokovan.adapters.sql.snapshots.changed_sessions import ChangedSessions
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import KernelMove
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, DEFAULT_GROUP, StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements

pytestmark = pytest.mark.slow

T = KernelTrigger
STARTING = ((T.IMAGE_READY, BY_AGENT), (T.CREATION_REQUESTED, BY_COORDINATOR), (T.STARTED, BY_AGENT))


class Views:
    """A view that is refreshed, and a new one that reads everything: both must agree."""

    def __init__(self, cluster: StoredCluster) -> None:
        self.cluster = cluster
        self.view = self._new()
        self._mark: int | None = None

    def _new(self) -> SystemView:
        view = SystemView()
        view.set_scaling_groups([ScalingGroup(name=DEFAULT_GROUP)])
        return view

    async def refresh(self) -> bool:
        """Refresh; whether kernels were read."""
        with recorded_statements(self.cluster) as statements:
            await self._read(self.view, self._mark)
        self._mark = await self.cluster.store.run_sql(self._stamp)
        fresh = self._new()
        await self._read(fresh, None)
        snapshots = [view.snapshot(DEFAULT_GROUP) for view in (self.view, fresh)]
        assert snapshots[0].sessions == snapshots[1].sessions
        return any("kernels.slots" in one for one in statements)

    async def _read(self, view: SystemView, since: int | None) -> None:
        async def work(unit: SqlUnitOfWork) -> None:
            await ChangedSessions().refresh(unit.transaction, view, since=since)

        await self.cluster.store.read(work)
        view.changed()

    async def _stamp(self, unit: SqlUnitOfWork) -> int:
        return unit.transaction.stamp


@pytest.fixture(autouse=True)
def every_session_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_digests, "LARGE_BODY", 0)


async def test_kernels_that_start_are_not_read_again_and_those_that_end_are() -> None:
    async with StoredCluster.open() as cluster:
        views = Views(cluster)
        await cluster.agent("a1")
        await cluster.submit("s", kernels=3)
        assert await views.refresh()
        await cluster.place("s", "a1", "a1", "a1")
        assert await views.refresh()
        for trigger, change in STARTING:
            await cluster.move("s", trigger, change)
            assert not await views.refresh(), trigger
        [running] = views.view.snapshot(DEFAULT_GROUP).sessions
        assert running.running_since_ms is not None
        await cluster.stop("s")
        assert await views.refresh()
        await cluster.free("s", FreeProof.AGENT_TOMBSTONE)
        await views.refresh()
        assert views.view.digests == {}


async def test_a_retried_session_is_read_again_with_what_it_avoids() -> None:
    async with StoredCluster.open() as cluster:
        views = Views(cluster)
        await cluster.agent("a1")
        await cluster.submit("s", kernels=2)
        await cluster.place("s", "a1", "a1")
        await views.refresh()
        await views.refresh()
        session = await cluster.session("s")
        moves = [KernelMove(one, T.RETRY_REQUESTED, None, 60_000) for one in session.kernels]
        await cluster.store.run(lambda unit: unit.sessions.move_kernels(moves, BY_COORDINATOR))
        assert await views.refresh()
        await cluster.free("s", FreeProof.NEVER_SENT)
        assert await views.refresh()
        [waits] = views.view.snapshot(DEFAULT_GROUP).sessions
        assert [bool(kernel.avoid) for kernel in waits.kernels] == [True, True]


async def test_a_session_ended_by_force_is_released_with_its_last_kernel() -> None:
    async with StoredCluster.open() as cluster:
        views = Views(cluster)
        agent = await cluster.agent("a1")
        await cluster.submit("s", kernels=2)
        await cluster.place("s", "a1", "a1")
        await cluster.start("s")
        views.view.put_agent((await cluster.store.read(lambda unit: unit.fleet.get(agent.info.agent_id))).info)
        await views.refresh()
        for goal in (Goal.STOP, Goal.FORCE):
            await cluster.stop("s", goal)
            await views.refresh()
        [seen] = views.view.snapshot(DEFAULT_GROUP).agents
        assert seen.releasing_count == 2
        await cluster.free("s", FreeProof.AGENT_TOMBSTONE)
        await views.refresh()
        [seen] = views.view.snapshot(DEFAULT_GROUP).agents
        assert seen.releasing_count == 0


async def test_small_sessions_have_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_digests, "LARGE_BODY", 1 << 20)
    async with StoredCluster.open() as cluster:
        views = Views(cluster)
        await cluster.submit("s")
        await views.refresh()
        await cluster.submit("t")
        assert await views.refresh()
        assert views.view.digests == {}

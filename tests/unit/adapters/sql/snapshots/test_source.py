"""Reads of a refresh."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from sokovan.adapters.sql.snapshots import kernel_digests
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.errors import FencedOut
from sokovan.domain.ids import AgentId, ScalingGroupName
from sokovan.domain.owners.tenancy import Owner
from sokovan.ports.storage import Fence
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.testing.contracts.snapshots import settled
from sokovan.testing.stored_cluster import DEFAULT_GROUP, StoredCluster


@contextmanager
def statements(cluster: StoredCluster) -> Iterator[list[str]]:
    """The statements that are run meanwhile."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    engine = cluster.store.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


async def a_busy_cluster(cluster: StoredCluster) -> SqlSnapshots:
    await cluster.agent("a1")
    for number in range(5):
        await cluster.submit(f"s{number}")
    source = SqlSnapshots(cluster.store)
    await settled(source)
    return source


async def test_a_refresh_with_nothing_new_reads_next_to_nothing(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:
            source = await a_busy_cluster(cluster)
            with statements(cluster) as seen:
                assert not await source.refresh()
            assert not any("body" in statement for statement in seen), seen
            assert len([statement for statement in seen if statement.startswith("SELECT")]) <= 2


async def test_a_refresh_reads_the_specs_of_what_changed_only(migrated_postgres_url: str) -> None:
    for url in ("sqlite://", migrated_postgres_url):
        async with StoredCluster.open(url) as cluster:
            source = await a_busy_cluster(cluster)
            await cluster.stop("s3")
            with statements(cluster) as seen:
                assert await source.refresh()
            assert not any("FROM queues" in statement or "FROM topology" in statement for statement in seen)
            shown = {one.session_id for one in (await source.snapshot(DEFAULT_GROUP)).sessions}
            assert shown == {"s0", "s1", "s2", "s4"}


async def test_a_refresh_without_sessions_reads_neither_them_nor_their_kernels() -> None:
    async with StoredCluster.open() as cluster:
        source = await a_busy_cluster(cluster)
        await cluster.stop("s3")
        await cluster.agent("a2")
        with statements(cluster) as seen:
            assert await source.refresh(sessions=False)
        assert not any("FROM kernels" in statement or "FROM sessions WHERE" in statement for statement in seen), seen
        assert set(source.agents()) == {"a1", "a2"}
        assert [one.name for one in source.groups()] == [DEFAULT_GROUP]


async def test_a_leader_that_was_replaced_leaves_nothing_to_the_next() -> None:
    async with StoredCluster.open() as cluster:
        source = SqlSnapshots(cluster.store)
        await source.refresh()
        plan = SchedulingPlan(cursors={"x": AgentId("a1")})
        with pytest.raises(FencedOut):
            await source.record_plan(DEFAULT_GROUP, plan, fence=Fence("scheduler", 1))
        await cluster.snapshots.refresh()
        assert (await cluster.snapshots.snapshot(DEFAULT_GROUP)).cursors == {}


async def test_a_source_that_was_never_refreshed_knows_nothing() -> None:
    async with StoredCluster.open() as cluster:
        source = SqlSnapshots(cluster.store)
        assert list(source.scaling_groups()) == []
        assert source.incarnation(AgentId("a1")) is None
        assert source.marks == (0, 0)


async def test_a_refresh_that_fails_is_made_up_for_by_the_next() -> None:
    async with StoredCluster.open() as cluster:
        source = await a_busy_cluster(cluster)
        await cluster.submit("late")
        statement = "UPDATE sessions SET body = 'no json' WHERE session_id = 'late'"
        async with cluster.store.database.writing() as connection:
            body = (
                await connection.exec_driver_sql("SELECT body FROM sessions WHERE session_id = 'late'")
            ).scalar_one()
            await connection.exec_driver_sql(statement)
            await connection.commit()
        with pytest.raises(ValueError, match="JSON"):
            await source.refresh()
        async with cluster.store.database.writing() as connection:
            await connection.exec_driver_sql("UPDATE sessions SET body = ? WHERE session_id = 'late'", (body,))
            await connection.commit()
        assert await source.refresh()
        assert len((await source.snapshot(ScalingGroupName("default"))).sessions) == 6


async def test_a_first_load_that_breaks_off_leaves_no_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoredCluster.open() as cluster:
        for name in ("ends", "stays"):
            await cluster.submit(name)
        source = SqlSnapshots(cluster.store)

        async def broken(*_: object) -> None:
            raise RuntimeError("cut")

        with monkeypatch.context() as patch:
            patch.setattr(SqlSnapshots, "_refresh_agents", broken)
            with pytest.raises(RuntimeError, match="cut"):
                await source.refresh()
        await cluster.stop("ends")
        await source.refresh()
        assert [one.session_id for one in (await source.snapshot(DEFAULT_GROUP)).sessions] == ["stays"]


async def test_once_large_sessions_are_known_sessions_are_read_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with StoredCluster.open() as cluster:
        source, long = SqlSnapshots(cluster.store), list[bool]()
        await settled(source)
        read, read_long = cluster.store.read, cluster.store.read_long

        def noted(how: Any, *, is_long: bool) -> Any:
            def call(work: Any) -> Any:
                long.append(is_long)
                return how(work)

            return call

        monkeypatch.setattr(cluster.store, "read", noted(read, is_long=False))
        monkeypatch.setattr(cluster.store, "read_long", noted(read_long, is_long=True))
        monkeypatch.setattr(kernel_digests, "LARGE_BODY", 0)
        await cluster.submit("large", kernels=2)
        for sessions in (True, True, False):
            await source.refresh(sessions=sessions)
        assert long == [False, True, False]


async def test_of_many_new_sessions_so_many_are_read_at_once_and_users_take_turns() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("known")
        source = SqlSnapshots(cluster.store)
        await settled(source)

        async def read(at_once: int | None) -> tuple[list[str], bool]:
            assert await source.refresh(at_once=at_once)
            found = (await source.snapshot(DEFAULT_GROUP)).sessions
            return sorted(one.session_id for one in found), source.is_behind

        for number in range(6):
            await cluster.submit(f"s{number}", owner=Owner(user="ada"))
        await cluster.submit("shell", owner=Owner(user="bob"))
        await cluster.place("known", "a1")
        assert await read(2) == (["known", "s0", "shell"], True)
        known = next(one for one in (await source.snapshot(DEFAULT_GROUP)).sessions if one.session_id == "known")
        assert known.kernels[0].agent == "a1", "one that was read before is read again at once"
        await cluster.stop("s5")
        assert await read(2) == (["known", "s0", "s1", "s2", "shell"], True)
        assert await read(None) == (["known", "s0", "s1", "s2", "s3", "s4", "shell"], False)
        assert not await source.refresh(at_once=2)

"""Removal of sessions that ended long ago, through the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions import session_retention
from sokovan.adapters.sql.schema.tables import (
    ARRAYS,
    HELD_SLOTS,
    KERNEL_HISTORY,
    KERNELS,
    PAST_USAGE,
    SESSION_HISTORY,
    SESSIONS,
)
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import SessionRecord
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.storage import StoreRetention
from sokovan.testing.contracts.repositories.arrays import array, end_member
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow

DAY_S = 24 * 3600
MONTH = StoreRetention(sessions_s=30 * DAY_S, sessions_per_user_max=0, audit_s=0)
ALICE = Owner(user="alice")


@pytest.fixture
async def cluster() -> AsyncIterator[OrchestratedCluster]:
    """A cluster with an agent; its invariants are checked at the end."""
    async with OrchestratedCluster.open() as cluster:
        await cluster.agent("a1")
        yield cluster


async def ended(cluster: OrchestratedCluster, *names: str, **options: object) -> list[SessionRecord]:
    """Run sessions to their end."""
    for name in names:
        await cluster.submit(name, slots={"cpu": 10}, **options)
    await cluster.settle()
    for name in names:
        await cluster.stop(name)
    await cluster.settle()
    return [await cluster.session(name) for name in names]


async def left(cluster: OrchestratedCluster) -> set[str]:
    """The sessions that are stored."""
    rows = await cluster.store.read_long(lambda unit: unit.transaction.fetch(sa.select(SESSIONS.c.session_id)))
    return {row.session_id for row in rows}


async def rows(cluster: OrchestratedCluster, *tables: sa.Table) -> list[int]:
    """How many rows each table has."""

    async def work(unit: SqlUnitOfWork) -> list[int]:
        found = [
            await unit.transaction.fetch(sa.select(sa.func.count().label("rows")).select_from(one)) for one in tables
        ]
        return [row.rows for [row] in found]

    return await cluster.store.read_long(work)


async def test_a_session_is_removed_with_all_its_rows_and_its_usage_stays(cluster: OrchestratedCluster) -> None:
    await ended(cluster, "old", kernels=3)
    usage = await rows(cluster, PAST_USAGE)
    await cluster.clock.advance(29 * DAY_S)
    await ended(cluster, "new")
    assert not await cluster.store.expire(MONTH)
    assert await left(cluster) == {"old", "new"}

    await cluster.clock.advance(2 * DAY_S)
    assert not await cluster.store.expire(MONTH)
    assert await left(cluster) == {"new"}
    kernels, slots, *histories = await rows(cluster, KERNELS, HELD_SLOTS, KERNEL_HISTORY, SESSION_HISTORY)
    assert (kernels, slots) == (1, 1)
    assert histories == [
        len(await cluster.history("new", kernels=True)) - histories[1],
        len(await cluster.history("new")),
    ]
    assert await rows(cluster, PAST_USAGE) == usage


async def test_a_session_stays_while_a_living_one_depends_on_it(cluster: OrchestratedCluster) -> None:
    await ended(cluster, "first", "second")
    await cluster.submit("waits", slots={"cpu": 99_000}, dependencies=(SessionId("first"),))
    await cluster.clock.advance(31 * DAY_S)
    await cluster.store.expire(MONTH)
    assert await left(cluster) == {"first", "waits"}
    await cluster.stop("waits")
    await cluster.store.expire(MONTH)
    assert await left(cluster) == {"waits"}


async def test_an_array_stays_until_its_last_session_has_ended(cluster: OrchestratedCluster) -> None:
    _, first, last = await array(cluster.stored)
    await cluster.stop(first)
    await cluster.clock.advance(31 * DAY_S)
    await cluster.store.expire(MONTH)
    assert await left(cluster) == {first, last}
    await cluster.stop(last)
    await cluster.clock.advance(31 * DAY_S)
    await cluster.store.expire(MONTH)
    assert await left(cluster) == set()
    assert await rows(cluster, ARRAYS) == [0]


async def test_an_array_keeps_its_result_as_long_as_it_exists(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def remove_one(unit: SqlUnitOfWork) -> int:
        return await session_retention.remove_older(unit.transaction, cluster.clock.now_ms())

    monkeypatch.setattr(session_retention, "KERNELS_AT_ONCE", 1)
    array_id, failed, first, last = await array(cluster.stored, size=3)
    for session, code in ((failed, 1), (first, 0), (last, 0)):
        await end_member(cluster.stored, session, code)
        await cluster.clock.advance(1)
    await cluster.clock.advance(31 * DAY_S)
    for expected in ({failed, last}, {failed}, set()):
        found = await cluster.store.read(lambda unit: unit.arrays.outcomes([array_id]))
        assert list(found.values()) == [False]
        await cluster.store.run(remove_one)
        assert await left(cluster) == expected


async def test_a_session_stays_while_its_request_may_be_repeated(cluster: OrchestratedCluster) -> None:
    request = RequestKey("u", "key", "digest")
    await cluster.stored.submit("s", request=request)
    await cluster.stop("s")
    day = StoreRetention(sessions_s=DAY_S)
    await cluster.clock.advance(2 * DAY_S)
    await cluster.store.expire(day)
    assert (await cluster.stored.submit("again", request=request)).session_id == "s"
    await cluster.clock.advance(6 * DAY_S)
    await cluster.store.prune(older_than_s=0)
    await cluster.store.expire(day)
    assert await left(cluster) == set()


async def test_of_a_user_with_too_many_sessions_the_oldest_are_removed(cluster: OrchestratedCluster) -> None:
    few = StoreRetention(sessions_s=0, sessions_per_user_max=2, audit_s=0)
    await cluster.submit("lives", owner=ALICE, slots={"cpu": 10})
    await ended(cluster, "s1", "s2", "s3", owner=ALICE)
    await ended(cluster, "t1", "t2")
    await cluster.store.expire(few)
    assert len(await left(cluster)) == 6, "a session was removed that ended just now"
    await cluster.clock.advance(2 * 3600)
    await cluster.store.expire(few)
    assert await left(cluster) == {"lives", "s3", "t1", "t2"}


async def test_each_turn_removes_a_bounded_number(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_retention, "KERNELS_AT_ONCE", 2)
    await ended(cluster, *(f"s{number}" for number in range(7)), kernels=2)
    await cluster.clock.advance(31 * DAY_S)
    assert await cluster.store.expire(MONTH)
    assert len(await left(cluster)) == 2
    assert not await cluster.store.expire(MONTH)
    assert not await left(cluster)


async def test_the_leader_removes_what_the_settings_say(cluster: OrchestratedCluster) -> None:
    await ended(cluster, "s")
    await cluster.clock.advance(91 * DAY_S)
    await cluster.agents.beat()
    await cluster.pass_time(70, step_s=10)
    assert await left(cluster) == set()

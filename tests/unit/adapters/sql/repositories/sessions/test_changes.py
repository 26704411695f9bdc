"""Change tracking by stamps."""

import sqlalchemy as sa

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.tenancy import Owner
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import recorded_statements


async def test_nothing_is_named_without_a_mark_or_without_a_write() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("before")
        mark, named = await cluster.store.read(lambda unit: unit.sessions.changed(None))
        assert named == {}
        assert await cluster.store.read(lambda unit: unit.sessions.changed(mark)) == (mark, {})


async def test_a_write_that_touches_no_session_names_none() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s")
        mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
        await cluster.agent("a1")
        later, named = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
        assert later > mark
        assert named == {}


async def test_every_session_written_since_is_named_with_its_version() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1")
        mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
        await cluster.submit("s2")
        await cluster.place("s1", "a1")
        _, named = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
        assert named == {
            SessionId("s1"): (await cluster.session("s1")).version,
            SessionId("s2"): (await cluster.session("s2")).version,
        }


async def test_users_of_sessions_are_named_the_oldest_session_first() -> None:
    async with StoredCluster.open() as cluster:
        for name, user in (("s2", "ada"), ("s1", "bob"), ("s0", "cyd")):
            await cluster.submit(name, owner=Owner(user=user))
        asked = [SessionId(name) for name in ("s1", "unknown", "s2")]
        users = await cluster.store.read(lambda unit: unit.sessions.users_of(asked))
        assert list(users.items()) == [("s2", "ada"), ("s1", "bob")]


async def test_sessions_that_wait_are_named_with_their_users_the_oldest_first() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        for name, user in (("s2", "ada"), ("s1", "bob"), ("s0", "cyd"), ("s3", "ada")):
            await cluster.submit(name, owner=Owner(user=user))
        await cluster.place("s1", "a1")
        await cluster.stop("s3")
        users = await cluster.store.read(lambda unit: unit.sessions.waiting_users())
        assert list(users.items()) == [("s2", "ada"), ("s0", "cyd")]


async def test_ended_sessions_whose_kernels_hold_slots_are_found_by_one_statement() -> None:
    async with StoredCluster.open() as cluster:
        for agent in ("a1", "a2", "a3"):
            await cluster.agent(agent)
        for name, agent in (("forced", "a2"), ("runs", "a1"), ("gone", "a3")):
            await cluster.submit(name, kernels=2)
            await cluster.place(name, agent, agent)
            await cluster.start(name)
        await cluster.stop("forced", Goal.FORCE)
        await cluster.stop("gone")
        await cluster.free("gone", FreeProof.AGENT_TOMBSTONE)
        with recorded_statements(cluster) as statements:
            assert await cluster.store.read(lambda unit: unit.sessions.ended_holding()) == ["forced"]
        assert len(statements) == 1
        explained = sa.text("EXPLAIN QUERY PLAN " + statements[0].replace("?", "''"))
        async with cluster.store.database.engine.connect() as connection:
            plan = [row[-1] for row in await connection.execute(explained)]
        assert any("ix_kernels_agent_live" in step for step in plan), plan

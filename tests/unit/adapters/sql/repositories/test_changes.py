"""What was written since a mark costs no look at the sessions when nothing was."""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.changes import settled_mark
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.adapters.sql.statements import told_to


async def test_nothing_new_is_known_without_a_look_at_the_sessions() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s1")
        mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
        with told_to(cluster) as statements:
            assert await cluster.store.read(lambda unit: unit.sessions.changed(mark)) == (mark, {})
        assert not [statement for statement in statements if "FROM sessions" in statement]
        await cluster.submit("s2")
        later, sessions = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
        assert later > mark
        assert sessions == {"s2": 1}


async def test_the_order_is_that_of_writing() -> None:
    async with StoredCluster.open() as cluster:
        mark, _ = await cluster.store.read(lambda unit: unit.sessions.changed(None))
        for name in ("b", "c", "a"):
            await cluster.submit(name)
        await cluster.stop("b")
        _, sessions = await cluster.store.read(lambda unit: unit.sessions.changed(mark))
        assert list(sessions.items()) == [("c", 1), ("a", 1), ("b", 2)]


async def test_an_empty_store_has_a_first_mark(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        async with StoredCluster.open(url) as cluster, cluster.store.database.reading() as connection:
            statement = sa.select(settled_mark(cluster.store.database.is_postgresql))
            assert (await connection.execute(statement)).scalar_one() >= 1

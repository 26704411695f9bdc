"""Change tracking by stamps."""

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.testing.stored_cluster import StoredCluster


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

"""How little it takes to store a session, or many."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories.sessions.enqueueing import conflict_of, hand_over
from sokovan.adapters.sql.schema.tables import DEPENDENCIES
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, session_spec
from tests.unit.adapters.sql.statements import told_to

SPEC = session_spec("s", name="train", dependencies=(SessionId("a"), SessionId("b")))
KEY = RequestKey("u", "k", "digest")


@pytest.mark.parametrize(
    ("said", "about_names"),
    [
        ('duplicate key value violates unique constraint "uq_sessions_user_name"', True),
        ("UNIQUE constraint failed: sessions.user, sessions.name", True),
        ('duplicate key value violates unique constraint "pk_sessions"', False),
        ("UNIQUE constraint failed: kernels.kernel_id", False),
    ],
)
def test_what_a_database_says_is_read_on_both(said: str, about_names: bool) -> None:
    error = IntegrityError("INSERT", {}, Exception(said))
    assert ("another name" in conflict_of(SPEC, error).hint) is about_names


async def test_a_new_session_takes_six_statements_and_is_not_read_again() -> None:
    async with StoredCluster.open() as cluster:
        for kernels in (1, 100):
            with told_to(cluster) as statements:
                await cluster.submit(f"s{kernels}", kernels=kernels)
            verbs = [statement.split()[0] for statement in statements]
            assert verbs == ["INSERT", "SELECT", "INSERT", "INSERT", "INSERT", "INSERT"]
        with told_to(cluster) as statements:
            await cluster.submit("keyed", request=KEY)
        assert len(statements) == 7


async def test_many_new_sessions_take_no_more_statements_than_one() -> None:
    async with StoredCluster.open() as cluster:
        wanted = [NewSession(session_spec(f"s{number}"), BY_USER) for number in range(50)]
        with told_to(cluster) as statements:
            await cluster.store.run(lambda unit: unit.sessions.enqueue_many(wanted))
        assert len(statements) == 6


async def handed_over(cluster: StoredCluster, before: str, after: str) -> set[tuple[str, str]]:
    async def work(unit: SqlUnitOfWork) -> set[tuple[str, str]]:
        await hand_over(unit.transaction, SessionId(before), SessionId(after))
        return {(row.session_id, row.depends_on) for row in await unit.transaction.fetch(DEPENDENCIES.select())}

    return await cluster.store.run_sql(work)


async def test_only_those_that_wait_are_handed_over() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("first", "heir", "else"):
            await cluster.submit(name)
        for name in ("waits", "left"):
            await cluster.submit(name, dependencies=(SessionId("first"), SessionId("else")))
        await cluster.store.run(lambda unit: unit.sessions.set_goal(SessionId("left"), Goal.STOP, BY_USER))
        pairs = await handed_over(cluster, "first", "heir")
        assert pairs == {("waits", "heir"), ("waits", "else"), ("left", "first"), ("left", "else")}
        left = await cluster.store.read(lambda unit: unit.sessions.get(SessionId("left")))
        assert left.spec.dependencies == ("first", "else")

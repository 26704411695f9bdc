"""What stands in the way of a new session, and how little it takes to store one."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories.enqueueing import Found, conflict_of, session_of
from sokovan.domain.errors import Conflict, IdempotencyConflict, NotFound, SokovanError
from sokovan.domain.ids import SessionId
from sokovan.ports.sessions import RequestKey
from sokovan.testing.stored_cluster import StoredCluster, session_spec
from tests.unit.adapters.sql.statements import told_to

SPEC = session_spec("s", name="train", dependencies=(SessionId("a"), SessionId("b")))
KEY = RequestKey("u", "k", "digest")


def found(*, group: str = "default", needed: str = "ab", taken: tuple[str, ...] = (), namesake: str = "") -> Found:
    return Found(scaling_groups={group}, dependencies=set(needed), taken=set(taken), namesake=namesake)


def test_nothing_stands_in_the_way_of_what_is_all_there() -> None:
    found().check(SPEC)


@pytest.mark.parametrize(
    ("there", "kind", "text"),
    [
        (found(group="other"), NotFound, "no scaling group 'default'"),
        (found(needed="a"), NotFound, "no session 'b'"),
        (found(taken=("s.0",)), Conflict, "'s.0' is there already"),
        (found(namesake="s7"), Conflict, "user default has a session 'train' already: s7"),
        (found(needed="", taken=("s",), namesake="s7"), NotFound, "no session 'a'"),
    ],
)
def test_what_is_missing_or_in_the_way_is_named(there: Found, kind: type[SokovanError], text: str) -> None:
    with pytest.raises(kind, match=text):
        there.check(SPEC)


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
    assert ("another name" in conflict_of([SPEC], error).hint) is about_names
    assert ("another name" in conflict_of([SPEC, SPEC], error).hint) is about_names


def test_a_key_gives_its_session_to_the_same_request_only() -> None:
    assert session_of((SessionId("s1"), "digest"), KEY) == "s1"
    for earlier in ((SessionId("s1"), "other"), None):
        with pytest.raises(IdempotencyConflict):
            session_of(earlier, KEY)


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


async def test_a_name_is_found_by_its_index() -> None:
    async with StoredCluster.open() as cluster:
        with told_to(cluster) as statements:
            await cluster.submit("s1", name="train")
        [look] = [statement for statement in statements if statement.startswith("SELECT")]
        # Bound, it would not be seen that all rows asked for are in the index, on both databases.
        assert "sessions.name != ''" in look

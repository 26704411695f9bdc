"""What stands in the way of a new session is found in one look, and named."""

from __future__ import annotations

import pytest

from sokovan.adapters.sql.repositories.sessions.new_sessions import Found, apart, earlier, look, session_of
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound, SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.tenancy import Owner
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, session_spec
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
        (found(group="other"), ObjectNotFound, "no scaling group 'default'"),
        (found(needed="a"), ObjectNotFound, "no session 'b'"),
        (found(taken=("s.0",)), Conflict, "'s.0' is there already"),
        (found(namesake="s7"), Conflict, "user default has a session 'train' already: s7"),
        (found(needed="", taken=("s",), namesake="s7"), ObjectNotFound, "no session 'a'"),
    ],
)
def test_what_is_missing_or_in_the_way_is_named(there: Found, kind: type[SokovanError], text: str) -> None:
    with pytest.raises(kind, match=text):
        there.check(SPEC)


def test_a_key_gives_its_session_to_the_same_request_only() -> None:
    assert session_of((SessionId("s1"), "digest"), KEY) == "s1"
    for other in ((SessionId("s1"), "other"), None):
        with pytest.raises(IdempotencyConflict):
            session_of(other, KEY)


def test_only_what_has_nothing_in_common_is_stored_at_once() -> None:
    named = [NewSession(session_spec(f"s{number}", name=name), BY_USER) for number, name in enumerate("aab")]
    of_another = NewSession(session_spec("s3", name="a", owner=Owner(user="u2")), BY_USER)
    unnamed = [NewSession(session_spec(f"n{number}"), BY_USER) for number in range(2)]
    same_id = NewSession(session_spec("n0"), BY_USER)
    keyed = [NewSession(session_spec(f"k{number}"), BY_USER, KEY) for number in range(3)]
    first, rest = apart(list(enumerate([*named, of_another, *unnamed, same_id, *keyed])))

    assert [place for place, _ in first] == [0, 2, 3, 4, 5, 7]
    assert [place for place, _ in rest] == [1, 6, 8, 9]


def test_who_waits_for_another_of_the_same_batch_comes_after_it() -> None:
    wanted = [
        NewSession(session_spec("a"), BY_USER),
        NewSession(session_spec("b", dependencies=(SessionId("a"),)), BY_USER),
        NewSession(session_spec("c", dependencies=(SessionId("elsewhere"),)), BY_USER),
    ]
    first, rest = apart(list(enumerate(wanted)))

    assert ([place for place, _ in first], [place for place, _ in rest]) == ([0, 2], [1])


async def test_many_are_looked_at_in_one_statement_each_for_itself() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("old", name="train", request=KEY)
        wanted = [
            NewSession(session_spec("s1", name="train"), BY_USER),
            NewSession(session_spec("s2", dependencies=(SessionId("old"),)), BY_USER, KEY),
            NewSession(session_spec("old", scaling_group="nowhere"), BY_USER),
        ]
        with told_to(cluster) as statements:
            named, keyed, taken = await cluster.store.run_sql(lambda unit: look(unit.transaction, wanted))

        assert len([one for one in statements if one.startswith("SELECT")]) == 1
        assert (named.namesake, named.earlier, named.taken) == ("old", None, set())
        assert (keyed.earlier, keyed.dependencies, keyed.namesake) == (("old", "digest"), {"old"}, "")
        assert (taken.taken, taken.scaling_groups) == ({"old", "old.0"}, set())
        assert await cluster.store.run_sql(lambda unit: earlier(unit.transaction, KEY)) == ("old", "digest")


async def test_a_name_is_found_by_its_index() -> None:
    async with StoredCluster.open() as cluster:
        with told_to(cluster) as statements:
            await cluster.submit("s1", name="train")
        [look] = [statement for statement in statements if statement.startswith("SELECT")]
        # Bound, it would not be seen that all rows asked for are in the index, on both databases.
        assert "sessions.name != ''" in look

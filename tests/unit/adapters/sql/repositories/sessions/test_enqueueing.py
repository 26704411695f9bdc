"""Enqueueing sessions: preconditions, conflicts, and the number of statements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from sokovan.adapters.sql.repositories.sessions import enqueueing
from sokovan.adapters.sql.repositories.sessions.enqueueing import (
    Preconditions,
    find_earlier,
    read_preconditions,
    replayed_session,
    split_conflicting,
    split_namesakes,
)
from sokovan.adapters.sql.repositories.sessions.session_names import conflict_of, name_taken
from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound, SokovanError
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import ServicePort
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, session_spec
from tests.unit.adapters.sql.statements import recorded_statements

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
def test_a_name_conflict_is_recognised_on_both_databases(said: str, about_names: bool) -> None:
    error = IntegrityError("INSERT", {}, Exception(said))
    assert ("another name" in conflict_of(SPEC, error).hint) is about_names


async def test_a_new_session_takes_six_statements_and_is_not_read_again() -> None:
    async with StoredCluster.open() as cluster:
        for kernels in (1, 100):
            with recorded_statements(cluster) as statements:
                await cluster.submit(f"s{kernels}", kernels=kernels)
            verbs = [statement.split()[0] for statement in statements]
            assert verbs == ["INSERT", "SELECT", "INSERT", "INSERT", "INSERT", "INSERT"]
        with recorded_statements(cluster) as statements:
            await cluster.submit("keyed", request=KEY)
        assert len(statements) == 7


async def test_many_new_sessions_take_no_more_statements_than_one() -> None:
    async with StoredCluster.open() as cluster:
        wanted = [NewSession(session_spec(f"s{number}"), BY_USER) for number in range(50)]
        with recorded_statements(cluster) as statements:
            await cluster.store.run(lambda unit: unit.sessions.enqueue_many(wanted))
        assert len(statements) == 6


async def test_sessions_of_one_name_take_no_more_statements_than_one() -> None:
    async with StoredCluster.open() as cluster:
        wanted = [NewSession(session_spec(f"s{number}", name="train"), BY_USER) for number in range(50)]
        with recorded_statements(cluster) as statements:
            first, *others = await cluster.store.run(lambda unit: unit.sessions.enqueue_many(wanted))
        assert len(statements) == 6
        assert isinstance(first, SessionRecord)
        assert {str(one) for one in others} == {str(name_taken("default", "train", ": s0"))}


async def test_a_session_with_the_name_of_another_is_refused_unless_it_may_be_a_repeated_request() -> None:
    wanted = [
        NewSession(session_spec("s1", name="train"), BY_USER),
        NewSession(session_spec("s2", name="train"), BY_USER, KEY),
        NewSession(session_spec("s3", name="other"), BY_USER),
        NewSession(session_spec("s4"), BY_USER),
    ]
    async with StoredCluster.open() as cluster:
        stored = await cluster.submit("s0", name="train")
    refused, rest = split_namesakes(list(enumerate(wanted)), [stored, ObjectNotFound(what="session", name="a")])

    assert [place for place, _ in rest] == [1, 2, 3]
    assert list(refused) == [0]


def found(
    *, group: str = "default", needed: str = "ab", taken: tuple[str, ...] = (), namesake: str = ""
) -> Preconditions:
    return Preconditions(scaling_groups={group}, dependencies=set(needed), taken=set(taken), namesake=namesake)


def test_met_preconditions_raise_nothing() -> None:
    found().check(SPEC)


@pytest.mark.parametrize(
    ("there", "kind", "text"),
    [
        (found(group="other"), ObjectNotFound, "no scaling group 'default'"),
        (found(needed="a"), ObjectNotFound, "no session 'b'"),
        (found(taken=("s.0",)), Conflict, "'s.0' exists already"),
        (found(namesake="s7"), Conflict, "user default has a session 'train' already: s7"),
        (found(needed="", taken=("s",), namesake="s7"), ObjectNotFound, "no session 'a'"),
    ],
)
def test_an_unmet_precondition_is_named(there: Preconditions, kind: type[SokovanError], text: str) -> None:
    with pytest.raises(kind, match=text):
        there.check(SPEC)


def test_a_key_returns_its_session_to_the_same_request_only() -> None:
    assert replayed_session((SessionId("s1"), "digest"), KEY) == "s1"
    for other in ((SessionId("s1"), "other"), None):
        with pytest.raises(IdempotencyConflict):
            replayed_session(other, KEY)


def test_only_sessions_without_a_conflict_are_inserted_together() -> None:
    named = [NewSession(session_spec(f"s{number}", name=name), BY_USER) for number, name in enumerate("aab")]
    of_another = NewSession(session_spec("s3", name="a", owner=Owner(user="u2")), BY_USER)
    unnamed = [NewSession(session_spec(f"n{number}"), BY_USER) for number in range(2)]
    same_id = NewSession(session_spec("n0"), BY_USER)
    keyed = [NewSession(session_spec(f"k{number}"), BY_USER, KEY) for number in range(3)]
    first, rest = split_conflicting(list(enumerate([*named, of_another, *unnamed, same_id, *keyed])))

    assert [place for place, _ in first] == [0, 2, 3, 4, 5, 7]
    assert [place for place, _ in rest] == [1, 6, 8, 9]


def test_a_session_that_depends_on_another_of_the_batch_comes_after_it() -> None:
    wanted = [
        NewSession(session_spec("a"), BY_USER),
        NewSession(session_spec("b", dependencies=(SessionId("a"),)), BY_USER),
        NewSession(session_spec("c", dependencies=(SessionId("elsewhere"),)), BY_USER),
    ]
    first, rest = split_conflicting(list(enumerate(wanted)))

    assert ([place for place, _ in first], [place for place, _ in rest]) == ([0, 2], [1])


async def test_the_preconditions_of_many_are_read_in_one_statement() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("old", name="train", request=KEY)
        wanted = [
            NewSession(session_spec("s1", name="train"), BY_USER),
            NewSession(session_spec("s2", dependencies=(SessionId("old"),)), BY_USER, KEY),
            NewSession(session_spec("old", scaling_group="nowhere"), BY_USER),
        ]
        with recorded_statements(cluster) as statements:
            named, keyed, taken = await cluster.store.run_sql(lambda unit: read_preconditions(unit.transaction, wanted))

        assert len([one for one in statements if one.startswith("SELECT")]) == 1
        assert (named.namesake, named.earlier, named.taken) == ("old", None, set())
        assert (keyed.earlier, keyed.dependencies, keyed.namesake) == (("old", "digest"), {"old"}, "")
        assert (taken.taken, taken.scaling_groups) == ({"old", "old.0"}, set())
        assert await cluster.store.run_sql(lambda unit: find_earlier(unit.transaction, KEY)) == ("old", "digest")


async def test_a_name_is_found_by_its_index() -> None:
    async with StoredCluster.open() as cluster:
        with recorded_statements(cluster) as statements:
            await cluster.submit("s1", name="train")
        [lookup] = [statement for statement in statements if statement.startswith("SELECT")]
        # As a parameter, neither database would see that the partial index applies.
        assert "sessions.name != ''" in lookup


async def test_kernels_inserted_in_one_step_are_as_those_inserted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = session_spec("s", kernels=3, slots={"cpu": 1000, "mem": 1 << 30}, ports=(ServicePort("web", 8080),))
    stored: list[SessionRecord] = []
    for few in (3, 2):
        monkeypatch.setattr(enqueueing, "SEPARATE_MAX", few)
        async with StoredCluster.open() as cluster:
            with recorded_statements(cluster) as statements:
                await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER))
            assert any("kernels_of_gang" in one for one in statements) is (few == 2), statements
            stored.append(await cluster.session("s"))
    first, second = [[replace(one, since_ms=0) for one in record.kernels] for record in stored]
    assert first == second

"""Requests become sessions: in one step, once, under a name that is free."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sokovan.domain import records
from sokovan.domain.arrays import ArrayMember, read_array
from sokovan.domain.errors import IdempotencyConflict
from sokovan.domain.events import Event, SessionsSubmitted
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import User
from sokovan.domain.problems import InvalidRequest, NameTaken, Problem
from sokovan.domain.session import Mount, SessionType
from sokovan.domain.session_request import KernelGroupRequest
from sokovan.orchestrator.sessions.intake import preparer, submissions, validation_context
from sokovan.orchestrator.sessions.intake.submissions import (
    KEY_MAX,
    RENAMED_MAX,
    KeyedRequest,
    Submission,
    request_key,
)
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery
from sokovan.orchestrator.sessions.intake.validators import problems_with
from sokovan.orchestrator.sessions.references import sessions_or_arrays
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store
from sokovan.testing.stored_cluster import refusal
from tests.unit.adapters.sql.statements import recorded_statements
from tests.unit.orchestrator.sessions.controller_harness import ALICE, BOB, HELLO, controller_harness, session_request


def counted_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each transaction of a store stores, from now on."""
    together: list[int] = []
    run = store.run

    async def counted(work: Any) -> Any:
        found = await run(work)
        together.append(len(found))
        return found

    monkeypatch.setattr(store, "run", counted)
    return together


async def test_no_more_requests_of_a_batch_are_stored_together_than_of_an_array(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submissions, "STORED_TOGETHER", 2)
    async with controller_harness() as on:
        together = counted_runs(on.store, monkeypatch)
        await on.controller.submit_many([KeyedRequest(HELLO)] * 5, ALICE)
    assert together == [2, 2, 1]


async def test_a_made_up_name_that_is_taken_is_made_up_again() -> None:
    async with controller_harness(
        names=iter(["brave-heron-7", "brave-heron-7", "brave-heron-7", "calm-otter-2"])
    ) as on:
        first = await on.submit()
        second = await on.submit()

    assert [first.spec.name, second.spec.name] == ["brave-heron-7", "calm-otter-2"]


async def test_two_users_may_have_sessions_of_one_name() -> None:
    async with controller_harness(names=iter(["brave-heron-7", "brave-heron-7"])) as on:
        sessions = [await on.submit(ALICE), await on.submit(BOB)]

    assert [session.spec.name for session in sessions] == ["brave-heron-7", "brave-heron-7"]


async def test_a_name_is_free_again_when_its_session_has_ended() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="train")
        await on.controller.cancel(first.session_id, ALICE)

        assert (await on.submit(name="train")).session_id != first.session_id


async def test_when_no_name_can_be_made_up_the_conflict_is_reported() -> None:
    async with controller_harness(names=iter(["same"] * (RENAMED_MAX + 2))) as on:
        await on.submit()
        error = await refusal(on.submit(), NameTaken)

        assert "same" in error.message
        assert await on.stored() == 1


@pytest.mark.slow
async def test_an_equal_request_that_races_itself_makes_one_session() -> None:
    async with controller_harness() as on:
        work = [on.controller.submit(session_request(name="train"), ALICE, key="k") for _ in range(8)]
        submissions = await asyncio.gather(*work)

        assert sum(one.fresh for one in submissions) == 1
        assert len({one.session.session_id for one in submissions}) == 1
        assert await on.stored() == 1


@pytest.mark.slow
async def test_a_repeated_request_gives_its_session_even_after_that_has_ended() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="train", key="k")
        await on.controller.cancel(first.session_id, ALICE)
        again = await on.submit(name="train", key="k")

    assert again.session_id == first.session_id
    assert again.status == "cancelled"


async def test_a_repeated_request_is_known_though_it_would_be_refused_now() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="train", group="vision", key="k")
        left = replace(ALICE, owner=replace(ALICE.owner, group="other"), groups=("other",))

        assert (await on.submit(left, name="train", group="vision", key="k")).session_id == first.session_id


@pytest.mark.slow
async def test_what_comes_together_is_judged_apart_and_stored_in_few_transactions() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        await on.submit(name="before")
        # They come before the first is stored, and are few enough for one transaction or two.
        requests = [
            session_request(name="s0"),
            session_request(name="s1", size=0),
            session_request(name="s2"),
            session_request(name="s2"),
        ]
        with recorded_statements(on.cluster) as statements:
            work = [on.controller.submit(request, caller) for request in requests for caller in (ALICE, BOB)]
            outcomes = await asyncio.gather(*work, return_exceptions=True)
        entries = await on.store.read(lambda unit: unit.audit.page(limit=99))
        stored = await on.stored()

    kinds = [type(one).__name__ for one in outcomes[::2]]
    assert kinds == ["Submission", "InvalidRequest", "Submission", "NameTaken"]
    assert [type(one).__name__ for one in outcomes[1::2]] == kinds
    assert (stored, len(entries)) == (5, 5)
    assert {entry.who for _, _, entry in entries} == {"alice", "bob"}
    assert sum(statement.startswith("INSERT INTO commits") for statement in statements) <= 2


async def test_the_audit_says_who_submitted_what_with_which_key() -> None:
    async with controller_harness() as on:
        session = await on.submit(name="train")
        ((_, _, entry),) = await on.store.read(lambda unit: unit.audit.page(limit=10))

    assert (entry.who, entry.action, entry.target) == ("alice", "session.enqueue", session.session_id)
    assert entry.detail == {"name": "train", "group": "vision", "access_key": "AKALICE"}


async def test_a_session_that_names_no_processor_gets_the_usual_one_of_its_agents() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1", architecture="aarch64")
        session = await on.submit()

    assert session.spec.kernels[0].architecture == "aarch64"


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
async def test_preparing_stores_nothing_however_often(times: int) -> None:
    async with controller_harness() as on:
        for _ in range(times):
            planned = await on.controller.plan(HELLO, ALICE)
            assert planned.placements == ()
        await on.cluster.agent("a1")

        assert (await on.controller.plan(HELLO, ALICE)).placements == ((0, AgentId("a1")),)
        assert await on.stored() == 0


async def test_what_equal_requests_have_in_common_is_read_once() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        counts = []
        for name, many in (("a", 2), ("b", 40)):
            first = await on.submit(name=name)
            with recorded_statements(on.cluster) as statements:
                taken = await on.controller.submit_many([KeyedRequest(session_request(name=name))] * many, ALICE)
            counts.append(len(statements))
            assert all(isinstance(one, NameTaken) and first.session_id in str(one) for one in taken)
    assert counts[0] == counts[1]


def test_equal_requests_have_equal_digests_whatever_the_order_of_their_keys() -> None:
    one = request_key(session_request(environment={"A": "1", "B": "2"}), ALICE, "k")
    other = request_key(session_request(environment={"B": "2", "A": "1"}), ALICE, "k")

    assert one == other


@pytest.mark.parametrize(
    "options",
    [
        {"name": "x"},
        {"command": ("echo", "hello", "")},
        {"size": 2},
        {"priority": 1},
        {"resources": {"cpu": 1}},
        {"resources": {"cpu": 0.5}},
        {"session_type": SessionType.INTERACTIVE},
        {"mounts": (Mount("/a", "/b"),)},
        {"groups": (KernelGroupRequest(name="a"),)},
        {"depends_on": ("s",)},
    ],
)
def test_another_request_has_another_digest(options: dict[str, Any]) -> None:
    assert (
        request_key(session_request(**options), ALICE, "k").digest != request_key(session_request(), ALICE, "k").digest
    )


def test_a_key_belongs_to_the_keypair_it_came_with() -> None:
    assert request_key(session_request(), ALICE, "k").scope == "AKALICE"
    assert request_key(session_request(), BOB, "k").scope == "AKBOB"


@pytest.mark.parametrize("key", ["", "x" * (KEY_MAX + 1), "a\nb", "a\0", "ключ"])
def test_a_key_that_could_not_stand_in_a_header_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        request_key(session_request(), ALICE, key)


async def test_an_array_is_stored_as_a_whole_with_a_session_per_index() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="sweep", array=read_array("1-5:2%2"))
        sessions = await on.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=9))
        [array] = await on.store.read(lambda unit: unit.arrays.named("sweep", SessionFilter()))
        ((_, _, entry),) = await on.store.read(lambda unit: unit.audit.page(limit=10))

    assert [one.spec.name for one in sessions] == ["sweep[1]", "sweep[3]", "sweep[5]"]
    assert sessions[0].session_id == first.session_id
    members = [one.spec.array for one in sessions]
    assert members == [ArrayMember(array.array_id, index, 3, 1, 5, at_once=2) for index in (1, 3, 5)]
    assert len({kernel.kernel_id for one in sessions for kernel in one.kernels}) == 3
    assert (array.size, array.at_once, array.indexes) == (3, 2, "1-5:2%2")
    assert (entry.action, entry.target, entry.detail["size"]) == ("array.enqueue", array.array_id, "3")


@pytest.mark.slow
async def test_a_repeated_array_is_stored_once() -> None:
    async with controller_harness() as on:
        array = read_array("0-4")
        submissions = await asyncio.gather(
            *(on.controller.submit(session_request(name="sweep", array=array), ALICE, key="k") for _ in range(3))
        )
        unnamed = [await on.controller.submit(session_request(array=array), ALICE, key="other") for _ in range(2)]
        stored = await on.stored()

    assert sorted(one.fresh for one in submissions) == [False, False, True]
    assert len({one.session.session_id for one in submissions}) == 1
    assert [one.fresh for one in unnamed] == [True, False]
    assert stored == 10


@pytest.mark.slow
async def test_of_an_array_whose_name_is_taken_nothing_is_stored() -> None:
    async with controller_harness(names=iter(["calm-otter-2", "calm-otter-2", "brave-heron-7"])) as on:
        await on.submit(name="sweep", array=read_array("0-2"))
        assert "taken by your array" in (await on.problems(name="sweep"))["name"]
        assert "taken by your array" in (await on.problems(name="sweep", array=read_array("7-8")))["name"]
        await on.submit(name="train")
        assert "taken by your session" in (await on.problems(name="train", array=read_array("0")))["name"]
        assert await on.stored() == 4
        # A name that was made up is made up again.
        names = [(await on.submit(array=read_array("0-1"))).spec.name for _ in range(2)]
        assert names == ["calm-otter-2[0]", "brave-heron-7[0]"]


@pytest.mark.slow
async def test_an_array_beyond_a_limit_is_refused() -> None:
    async with controller_harness() as on:
        assert "10001 sessions are more than 10000" in (await on.problems(array=read_array("0-10000")))["array"]
        assert "100100 kernels" in (await on.problems(array=read_array("1-1001"), size=100))["array"]
        large = {"X": "x" * 20_000}
        assert "bytes" in (await on.problems(array=read_array("1-10000"), environment=large))["array"]
        await on.cluster.put(
            ResourcePolicy("few", array_size_max=3), User("alice", "lab", groups=("vision",), policy="few")
        )
        assert (
            "4 sessions are more than 3, the limit of user alice"
            in (await on.problems(array=read_array("1-4")))["array"]
        )
        assert await on.stored() == 0


@pytest.mark.slow
async def test_a_request_may_depend_on_an_array_and_on_one_of_its_sessions() -> None:
    async with controller_harness() as on:
        first = await on.submit(name="sweep", array=read_array("0-1"))
        after = await on.submit(depends_on=("sweep", "sweep[0]"))
        assert first.spec.array is not None
        assert (after.spec.dependencies, after.spec.array_dependencies) == (
            (first.session_id,),
            (first.spec.array.array_id,),
        )
        await on.controller.cancel(first.session_id, ALICE)
        assert "has a session that failed" in (await on.problems(depends_on=("sweep",)))["depends_on/0"]


@pytest.mark.slow
async def test_many_requests_are_judged_each_for_itself_in_one_transaction() -> None:
    async with controller_harness() as on:
        await on.submit(name="taken")
        await on.hinted()
        requests = [
            KeyedRequest(session_request(name="one"), "k/0"),
            KeyedRequest(session_request(name="taken"), "k/1"),
            KeyedRequest(session_request(name="two"), "not printable\n"),
            KeyedRequest(session_request(name="three"), "k/3"),
        ]
        outcomes = await on.controller.submit_many(requests, ALICE)
        assert [isinstance(one, Submission) and one.session.spec.name for one in outcomes] == [
            "one",
            False,
            False,
            "three",
        ]
        assert isinstance(outcomes[1], NameTaken)
        again = await on.controller.submit_many(requests, ALICE)
        assert [one.fresh for one in again if isinstance(one, Submission)] == [False, False]
        assert await on.stored() == 3


async def test_equal_requests_are_validated_once_and_differ_in_name_and_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[IntakeQuery] = []

    def counted(query: IntakeQuery) -> list[Problem]:
        validated.append(query)
        return problems_with(query)

    monkeypatch.setattr(preparer, "problems_with", counted)
    other = replace(HELLO, command=("echo", "other"))
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        requests = [KeyedRequest(one) for one in (HELLO, HELLO, HELLO, other, HELLO)]
        outcomes = await on.controller.submit_many(requests, ALICE)
        stored = await on.stored()

    specs = [one.session.spec for one in outcomes if isinstance(one, Submission)]
    assert (stored, len(validated)) == (5, 3)
    assert len({spec.session_id for spec in specs}) == len({spec.name for spec in specs}) == 5
    assert len({kernel.kernel_id for spec in specs for kernel in spec.kernels}) == 5
    assert [spec.kernels[0].command for spec in specs] == [one.request.command for one in requests]


async def test_a_request_with_a_name_is_no_copy_of_another() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        named = session_request(name="train")
        first, second = await on.controller.submit_many([KeyedRequest(named), KeyedRequest(named)], ALICE)

    assert isinstance(first, Submission)
    assert isinstance(second, NameTaken)


async def test_large_sessions_of_a_batch_are_stored_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "KERNELS_TOGETHER", 10)
    together: list[int] = []
    group = KernelGroupRequest(name="g", size=3)
    sizes: list[dict[str, Any]] = [{"size": 4}, {"size": 4}, {"groups": (group,)}, {"size": 12}, {"size": 1}]
    async with controller_harness() as on:
        run = on.store.run

        async def counted(work: Any) -> Any:
            found = await run(work)
            together.append(sum(len(one.session.kernels) for one in found))
            return found

        monkeypatch.setattr(on.store, "run", counted)
        outcomes = await on.controller.submit_many([KeyedRequest(session_request(**one)) for one in sizes], ALICE)
    assert all(isinstance(one, Submission) for one in outcomes)
    assert together == [8, 3, 12, 1]


async def test_of_requests_with_names_fewer_share_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "KERNELS_TOGETHER", 10)
    monkeypatch.setattr(submissions, "LOOKED_UP_AS", 4)
    async with controller_harness() as on:
        together = counted_runs(on.store, monkeypatch)
        names = [f"n{number}" for number in range(5)] + [""] * 9
        outcomes = await on.controller.submit_many([KeyedRequest(session_request(name=one)) for one in names], ALICE)
    assert all(isinstance(one, Submission) for one in outcomes)
    assert together == [2, 2, 7, 3]


async def test_unknown_dependencies_of_a_batch_are_looked_up_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    look_up = sessions_or_arrays

    async def counted(unit: Any, text: str, scope: Any) -> Any:
        looked_up.append(text)
        return await look_up(unit, text, scope)

    monkeypatch.setattr(validation_context, "sessions_or_arrays", counted)
    unknown = [tuple(f"no-{line}-{place}" for place in range(8)) for line in range(20)]
    async with controller_harness() as on:
        await on.submit(name="first")
        wanted = [("first",), *unknown, ("first",)]
        requests = [KeyedRequest(session_request(depends_on=names)) for names in wanted]
        before, *refused, after = await on.controller.submit_many(requests, ALICE)

    assert isinstance(before, Submission)
    assert isinstance(after, Submission)
    assert set(looked_up) == {"first", *(name for names in unknown[:8] for name in names)}
    assert "there is no session 'no-7-0'" in str(refused[7])
    assert "was not looked up, since 64 others of this batch are unknown" in str(refused[8])


@pytest.mark.slow
async def test_secrets_are_stored_sealed_and_a_repeated_request_is_recognized() -> None:
    async with controller_harness() as on:
        first = await on.submit(key="k", secrets={"TOKEN": "known"})
        again = await on.submit(key="k", secrets={"TOKEN": "known"})
        await refusal(on.submit(key="k", secrets={"TOKEN": "other"}), IdempotencyConflict)
        members = await on.submit(secrets={"TOKEN": "known"}, array=read_array("0-1"))
        stored = await on.store.read(lambda unit: unit.sessions.get(members.session_id))

        assert again.session_id == first.session_id
        assert first.spec.secrets == ("TOKEN",)
        for one in (first, stored):
            assert on.cluster.secrets.open(one.sealed, owner="alice") == {"TOKEN": "known"}


async def test_the_disk_space_of_kernels_is_the_least_that_a_policy_of_the_owner_says() -> None:
    async with controller_harness() as on:
        assert (await on.submit()).spec.kernel_disk_max is None
        await on.cluster.put(ResourcePolicy("small", kernel_disk_max=5), User("alice", "lab", ("vision",), "small"))
        assert (await on.submit()).spec.kernel_disk_max == 5


@pytest.mark.slow
async def test_new_sessions_are_an_event_of_their_owner_that_names_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SUBMITTED_NAMED_MAX", 2)
    found: list[Event] = []

    async def take(events: Sequence[Event]) -> None:
        found.extend(events)

    async with controller_harness() as on:
        mine, theirs = await on.submit(ALICE), await on.submit(BOB)
        first = await on.submit(ALICE, name="sweep", array=read_array("0-6"))
        with pytest.raises(InvalidRequest):
            await on.submit(ALICE, name="sweep")
        await on.store.outbox.publish_pending(take, limit=1000)
    told = [
        (one.session_ids[0], len(one.session_ids), one.count) for one in found if isinstance(one, SessionsSubmitted)
    ]
    assert told == [(mine.session_id, 1, 1), (theirs.session_id, 1, 1), (first.session_id, 2, 7)]

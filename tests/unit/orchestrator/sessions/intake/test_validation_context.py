"""The part of the system state that a request is validated against."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from sokovan.domain.arrays import read_array
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, QueueName, ScalingGroupName
from sokovan.domain.owners.access import AccessSubject, Action, ObjectKind, Ownership, may
from sokovan.domain.owners.policy import STORED_PENDING_DEFAULT, ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.domain.problems import Problem, TooManyPending
from sokovan.domain.records import SessionSummary
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.sessions.intake import validation_context
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.submissions import KeyedRequest
from sokovan.orchestrator.sessions.intake.validation_context import (
    UNKNOWN_MAX,
    DependencyReader,
    IntakeContext,
    IntakeContextReader,
    is_member,
    stored_pending_limit,
    visible_to,
)
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import refusal
from tests.unit.adapters.sql.statements import recorded_statements
from tests.unit.orchestrator.sessions.controller_harness import (
    ALICE,
    BOB,
    CAROL,
    HELLO,
    ROOT,
    ControllerHarness,
    controller_harness,
    session_request,
)


@pytest.fixture
async def harness() -> AsyncIterator[ControllerHarness]:
    async with controller_harness() as controller:
        yield controller


async def facts(
    harness: ControllerHarness, caller: Caller = ALICE, *, usual: Mapping[str, str] | None = None, **options: Any
) -> IntakeContext:
    async def work(unit: UnitOfWork) -> IntakeContext:
        request = session_request(**options)
        dependencies = await DependencyReader(caller).read(unit, request.depends_on)
        pools = {name: Pool(architecture) for name, architecture in (usual or {}).items()}
        return await IntakeContextReader(unit).of(request, caller, pools=pools, dependencies=dependencies)

    return await harness.store.read(work)


async def test_the_policies_of_all_four_scopes_are_read(harness: ControllerHarness) -> None:
    names = ("of-key", "of-user", "of-group", "of-domain")
    await harness.cluster.put(
        *[ResourcePolicy(name) for name in names],
        Domain("lab", policy="of-domain"),
        Group("vision", "lab", policy="of-group"),
        User("alice", "lab", groups=("vision",), policy="of-user"),
        Keypair(AccessKey("AKALICE"), "alice", policy="of-key"),
    )

    found = await facts(harness)

    assert [(whose, policy.name) for whose, policy in found.policies] == [
        ("key AKALICE", "of-key"),
        ("user alice", "of-user"),
        ("group vision", "of-group"),
        ("domain lab", "of-domain"),
    ]


async def test_the_policy_of_a_foreign_group_is_not_revealed(harness: ControllerHarness) -> None:
    await harness.cluster.put(ResourcePolicy("tight", priority_max=0), Group("speech", "lab", policy="tight"))

    assert (await facts(harness, group="speech", priority=5)).policies == ()
    assert [policy.name for _, policy in (await facts(harness, CAROL, group="speech")).policies] == ["tight"]


async def test_owners_that_are_not_in_the_catalog_have_no_policies(harness: ControllerHarness) -> None:
    assert (await facts(harness)).policies == ()


async def test_only_the_requested_scaling_group_and_queue_are_read(harness: ControllerHarness) -> None:
    await harness.cluster.put(ScalingGroup(ScalingGroupName("other")), Queue(QueueName("other")))

    found = await facts(harness, scaling_group="other", queue="other")

    assert [group.name for group in found.scaling_groups] == ["other"]
    assert [queue.name for queue in found.queues] == ["other"]


async def test_every_group_is_considered_without_a_request(harness: ControllerHarness) -> None:
    await harness.cluster.put(ScalingGroup(ScalingGroupName("other")), Queue(QueueName("other")))

    found = await facts(harness)

    assert [group.name for group in found.scaling_groups] == ["default", "other"]
    assert (found.queue, len(found.queues)) == (Queue(QueueName("default")), 1)


async def test_queues_are_read_where_a_group_names_its_own(harness: ControllerHarness) -> None:
    own = ScalingGroup(ScalingGroupName("other"), default_queue=QueueName("own"))
    await harness.cluster.put(Queue(QueueName("own")), own)

    assert [queue.name for queue in (await facts(harness)).queues] == ["default", "own"]


async def test_all_are_read_where_one_must_be_chosen_or_is_missing(harness: ControllerHarness) -> None:
    await harness.cluster.put(ScalingGroup(ScalingGroupName("other")), Queue(QueueName("other")))

    found = await facts(harness, queue="missing", scaling_group="missing")

    assert [group.name for group in found.scaling_groups] == ["default", "other"]
    assert [queue.name for queue in found.queues] == ["default", "other"]
    assert found.queue is None


async def test_where_queues_form_a_tree_all_of_it_is_read(harness: ControllerHarness) -> None:
    await harness.cluster.put(
        ScalingGroup(ScalingGroupName("default"), scheduler_opts={"hierarchy": True}), Queue(QueueName("other"))
    )

    assert len((await facts(harness)).queues) == 2


async def test_images_are_read_for_the_processors_there_are(harness: ControllerHarness) -> None:
    await harness.cluster.put(Image("torch", "x86_64"), Image("torch", "aarch64"), Image("torch", "riscv64"))

    usual = await facts(harness, image="torch", usual={"default": "aarch64"})
    found = await facts(harness, image="torch", architecture="riscv64")
    missing = await facts(harness, image="torch", architecture="s390x")

    assert [image.architecture for image in usual.images["torch"]] == ["aarch64", "x86_64"]
    assert [image.architecture for image in found.images["torch"]] == ["riscv64"]
    # To say what there is instead.
    assert len(missing.images["torch"]) == 3


@pytest.mark.slow
async def test_a_namesake_is_the_users_own_and_has_not_ended(harness: ControllerHarness) -> None:
    await harness.submit(BOB, name="train")
    assert (await facts(harness, name="train")).namesake is None

    mine = await harness.submit(ALICE, name="train")
    namesake = (await facts(harness, name="train")).namesake
    assert isinstance(namesake, SessionSummary)
    assert namesake.session_id == mine.session_id

    await harness.controller.cancel(mine.session_id, ALICE)
    assert (await facts(harness, name="train")).namesake is None


async def test_dependencies_are_found_by_id_name_or_beginning(harness: ControllerHarness) -> None:
    session = await harness.submit(name="train-large")
    texts = (session.session_id, "train-large", "train-l", "nothing")

    found = (await facts(harness, depends_on=texts)).dependencies

    assert [[one.session_id for one in found[text] if isinstance(one, SessionSummary)] for text in texts] == [
        [session.session_id]
    ] * 3 + [[]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("caller", "found"),
    [
        (ALICE, ["alices"]),
        (BOB, ["bobs"]),
        # In the same group as Alice, and still without access.
        (Caller(BOB.owner, groups=("speech", "vision")), ["bobs"]),
        (CAROL, ["alices", "bobs"]),
        (ROOT, ["alices", "bobs", "roots"]),
    ],
)
async def test_a_session_is_built_on_by_those_who_see_it(
    harness: ControllerHarness, caller: Caller, found: list[str]
) -> None:
    for one in (ALICE, BOB, ROOT):
        await harness.submit(one, name=f"{one.owner.user}s")
    texts = ("alices", "bobs", "roots")

    dependencies = (await facts(harness, caller, depends_on=texts)).dependencies

    assert [text for text in texts if dependencies[text]] == found


@pytest.mark.slow
async def test_a_failed_session_is_hidden_from_callers_who_may_not_see_it(harness: ControllerHarness) -> None:
    nap = await harness.submit(name="nap")
    await harness.controller.cancel(nap.session_id, ALICE)
    mate = Caller(BOB.owner, groups=("vision",))

    for text in ("nap", nap.session_id):
        problems = await harness.problems(mate, depends_on=(text,))
        assert problems == {"depends_on/0": f"there is no session '{text}'"}
    assert "been cancelled" in (await harness.problems(CAROL, depends_on=("nap",)))["depends_on/0"]


async def test_ones_own_session_is_meant_before_that_of_another(harness: ControllerHarness) -> None:
    await harness.submit(BOB, name="train")
    mine = await harness.submit(ROOT, name="train")

    (found,) = (await facts(harness, ROOT, depends_on=("train",))).dependencies["train"]

    assert isinstance(found, SessionSummary)
    assert found.session_id == mine.session_id


def test_who_sees_what() -> None:
    assert visible_to(ALICE) == [SessionFilter(user="alice")]
    assert visible_to(CAROL) == [SessionFilter(user="carol", domain="lab"), SessionFilter(domain="lab")]
    assert visible_to(ROOT) == [SessionFilter(user="root"), SessionFilter()]


@pytest.mark.parametrize("caller", [ALICE, BOB, CAROL, ROOT])
def test_what_is_built_on_is_what_may_be_seen(caller: Caller) -> None:
    owner = caller.owner
    standing = AccessSubject(user=owner.user, domain=owner.domain, role=caller.role, groups=caller.groups)
    for whose in (
        Ownership(domain=domain, user=user, group=group)
        for domain in ("lab", "hq")
        for user in ("alice", "bob", "carol", "root")
        for group in ("vision", "speech", "ops")
    ):
        built_on = any(
            wanted.user in {"", whose.user} and wanted.domain in {"", whose.domain} for wanted in visible_to(caller)
        )
        assert built_on == may(standing, Action.SEE, ObjectKind.SESSION, whose), whose


@pytest.mark.parametrize(
    ("caller", "group", "member"),
    [
        (ALICE, Group("vision", "lab"), True),
        (ALICE, Group("speech", "lab"), False),
        (CAROL, Group("vision", "lab"), True),
        (CAROL, Group("ops", "hq"), False),
        (ROOT, Group("vision", "lab"), True),
        (ROOT, None, False),
    ],
)
def test_who_may_submit_to_a_group(caller: Caller, group: Group | None, member: bool) -> None:
    assert is_member(caller, group) is member


@pytest.mark.slow
async def test_a_few_texts_that_mean_nothing_end_the_search(harness: ControllerHarness) -> None:
    known = await harness.submit(name="train")
    texts = ["train", *(f"missing-{number}" for number in range(100)), known.session_id]
    found = (await facts(harness, depends_on=tuple(texts))).dependencies

    assert [one.session_id for one in found["train"] if isinstance(one, SessionSummary)] == [known.session_id]
    assert list(found) == texts[: 1 + UNKNOWN_MAX]
    assert len(await harness.problems(depends_on=tuple(texts))) == UNKNOWN_MAX


@pytest.mark.slow
async def test_a_user_stores_as_many_pending_sessions_as_its_quota_allows() -> None:
    async with controller_harness() as on:
        await on.cluster.put(ResourcePolicy("few", stored_pending_max=3), User("alice", "lab", ("vision",), "few"))
        first = await on.submit()
        await on.submit(array=read_array("1-2"))
        error = await refusal(on.submit(), TooManyPending)
        many = await refusal(on.submit(array=read_array("1-2")), TooManyPending)
        await on.submit(BOB)

        assert error.problems == (
            Problem("session", "alice has 3 pending sessions, one more is beyond 3, the limit of user alice"),
        )
        assert many.problems[0].where == "array"
        assert error.code == "too-many-pending"
        assert await on.stored() == 4

        await on.controller.cancel(first.session_id, ALICE)
        assert (await on.submit(key="k")).status == "pending"
        # A repeated request is no new session.
        assert (await on.submit(key="k")).status == "pending"


@pytest.mark.slow
async def test_sessions_that_are_stored_together_do_not_pass_the_limit_together() -> None:
    async with controller_harness() as on:
        await on.cluster.put(ResourcePolicy("few", stored_pending_max=3), User("alice", "lab", ("vision",), "few"))
        work = [on.controller.submit(HELLO, ALICE) for _ in range(9)]
        outcomes = await asyncio.gather(*work, return_exceptions=True)

        assert sum(isinstance(one, TooManyPending) for one in outcomes) == 6
        assert await on.stored() == 3


@pytest.mark.slow
async def test_pending_sessions_are_not_counted_for_each_request() -> None:
    async with controller_harness() as on:
        await on.submit()
        with recorded_statements(on.cluster) as statements:
            for _ in range(5):
                await on.submit()
        assert not any("count(*)" in one and "pending" in one for one in statements)


def test_the_least_limit_of_the_policies_holds() -> None:
    policies = [("user ada", ResourcePolicy("a", stored_pending_max=9)), ("group x", ResourcePolicy("b"))]
    assert stored_pending_limit(policies) == (9, "the limit of user ada")
    assert stored_pending_limit(policies[1:]) == (STORED_PENDING_DEFAULT, "the limit without a quota")


async def test_who_has_many_pending_sessions_is_refused_again_for_a_moment_without_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation_context, "MANY_PENDING", 2)
    async with controller_harness() as on:
        await on.cluster.put(ResourcePolicy("few", stored_pending_max=3), User("alice", "lab", ("vision",), "few"))
        stored = [await on.submit(key="k"), await on.submit()]
        await refusal(on.submit(array=read_array("1-2")), TooManyPending)
        with monkeypatch.context() as without, recorded_statements(on.cluster) as statements:
            without.setattr(on.store, "run", None)
            again = await refusal(on.submit(array=read_array("1-3")), TooManyPending)
        assert not any("count(*)" in one for one in statements)
        assert again.problems[0].where == "array"
        # Fewer may still be stored, and so may those of others.
        await on.submit(BOB)
        stored.append(await on.submit())
        [refused] = await on.controller.submit_many([KeyedRequest(HELLO)], ALICE)
        assert isinstance(refused, TooManyPending)
        await on.controller.cancel(stored[1].session_id, ALICE)
        await refusal(on.submit(), TooManyPending)
        # One with its key was stored before.
        assert (await on.submit(key="k")).session_id == stored[0].session_id
        await on.clock.advance(validation_context.REFUSED_FOR_MS / 1000)
        await on.submit()

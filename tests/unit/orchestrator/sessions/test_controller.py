"""The controller: submission, termination, cancellation, explanations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sokovan.domain.errors import Conflict, IdempotencyConflict, ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.problems import InvalidRequest
from sokovan.domain.records import DETAIL_MAX, SessionResult
from sokovan.domain.session_request import Caller
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.explanations import When
from sokovan.orchestrator.sessions.explain.plan import DryRunUnavailable
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.testing.stored_cluster import refusal
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
        await controller.cluster.agent("a1")
        yield controller


async def audited(harness: ControllerHarness) -> list[AuditEntry]:
    return [entry for _, _, entry in await harness.store.read(lambda unit: unit.audit.page(limit=100))]


async def test_a_session_is_stored_pending_and_the_hint_is_set(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)

    assert await harness.hinted()
    assert await harness.cluster.session(session.session_id) == session
    assert session.status is SessionStatus.PENDING
    assert session.spec.owner == ALICE.owner
    assert session.spec.name == "able-adder-1"


async def test_a_refused_request_stores_nothing_and_sets_no_hint(harness: ControllerHarness) -> None:
    await refusal(harness.controller.enqueue(session_request(size=0), ALICE, key="k1"), InvalidRequest)

    assert not await harness.hinted()
    assert await harness.stored() == 0
    assert await audited(harness) == []


@pytest.mark.slow
async def test_the_same_request_with_the_same_key_makes_one_session(harness: ControllerHarness) -> None:
    first = await harness.controller.submit(session_request(name="train"), ALICE, key="k1")
    await harness.hinted()
    again = await harness.controller.submit(session_request(name="train"), ALICE, key="k1")

    assert first.fresh
    assert not again.fresh
    assert again.session == first.session
    assert await harness.stored() == 1
    assert not await harness.hinted()
    assert [entry.action for entry in await audited(harness)] == ["session.enqueue"]


async def test_a_key_with_another_request_is_refused(harness: ControllerHarness) -> None:
    await harness.controller.enqueue(HELLO, ALICE, key="k1")

    await refusal(harness.controller.enqueue(session_request(priority=1), ALICE, key="k1"), IdempotencyConflict)
    # What is wrong with the other request does not hide that the key was used.
    await refusal(harness.controller.enqueue(session_request(size=0), ALICE, key="k1"), IdempotencyConflict)

    assert await harness.stored() == 1


async def test_the_key_of_a_refused_request_is_free(harness: ControllerHarness) -> None:
    await refusal(harness.controller.enqueue(session_request(size=0), ALICE, key="k1"), InvalidRequest)

    assert (await harness.controller.submit(HELLO, ALICE, key="k1")).fresh


async def test_two_callers_may_use_the_same_key(harness: ControllerHarness) -> None:
    mine = await harness.controller.enqueue(HELLO, ALICE, key="k1")
    other = await harness.controller.enqueue(HELLO, BOB, key="k1")

    assert mine.session_id != other.session_id


@pytest.mark.slow
async def test_a_session_that_nothing_could_hold_is_taken_and_the_first_cycle_says_so(
    harness: ControllerHarness,
) -> None:
    session = await harness.controller.enqueue(session_request(resources={"gpu": 64}), ALICE)

    await harness.cycle()

    assert (await harness.controller.why(session.session_id)).code == "NEVER_FITS"


async def test_a_session_that_waits_is_cancelled(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.hinted()

    cancelled = await harness.controller.cancel(session.session_id, ALICE)

    assert cancelled.status is SessionStatus.CANCELLED
    assert cancelled.cause == "user-requested"
    assert await harness.hinted()


@pytest.mark.slow
async def test_only_a_session_that_waits_can_be_cancelled(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")

    error = await refusal(harness.controller.cancel(session.session_id, ALICE), Conflict)

    assert "is scheduled" in error.message
    assert (await harness.cluster.session(session.session_id)).goal is Goal.RUN
    await harness.controller.mark_for_termination(session.session_id, ALICE)
    await refusal(harness.controller.cancel(session.session_id, ALICE), Conflict)


@pytest.mark.slow
async def test_a_held_session_is_released_once_with_hint_and_audit(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(session_request(gates=("data", "budget")), ALICE)
    await harness.hinted()

    first = await harness.controller.release(session.session_id, ALICE, gates=("data", "unknown"))
    assert first.spec.gates == ("budget",)
    assert await harness.hinted()
    again = await harness.controller.release(session.session_id, ALICE, gates=("data",))
    assert again == first
    assert not await harness.hinted()
    last = await harness.controller.release(session.session_id, ALICE)
    assert last.spec.gates == ()
    assert await harness.hinted()
    released = [one for one in await audited(harness) if one.action == "session.release"]
    assert {one.detail["reason"] for one in released} == {"data", "budget"}


@pytest.mark.slow
async def test_a_session_that_was_cancelled_while_held_is_not_released(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(session_request(gates=("data",)), ALICE)
    await harness.controller.cancel(session.session_id, ALICE)

    error = await refusal(harness.controller.release(session.session_id, ALICE), Conflict)

    assert "is cancelled; only a pending session can be released" in error.message


async def test_a_mark_says_who_wanted_the_end_and_why(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")
    await harness.hinted()

    marked = await harness.controller.mark_for_termination(session.session_id, ALICE, reason="wrong data")

    assert (marked.status, marked.goal) == (SessionStatus.TERMINATING, Goal.STOP)
    assert (marked.cause, marked.cause_detail) == ("user-requested", "wrong data")
    assert await harness.hinted()
    entry = (await audited(harness))[-1]
    assert (entry.who, entry.action, entry.target) == ("alice", "session.terminate", session.session_id)
    assert entry.detail == {"code": "user-requested", "reason": "wrong data"}


@pytest.mark.slow
async def test_a_second_mark_changes_nothing(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")
    marked = await harness.controller.mark_for_termination(session.session_id, ALICE)
    await harness.hinted()
    entries = await audited(harness)

    assert await harness.controller.mark_for_termination(session.session_id, ALICE, reason="again") == marked
    assert not await harness.hinted()
    assert await audited(harness) == entries


@pytest.mark.slow
async def test_a_forced_end_is_seen_at_once_and_frees_nothing(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")
    await harness.controller.mark_for_termination(session.session_id, ALICE)

    forced = await harness.controller.mark_for_termination(session.session_id, ALICE, forced=True)

    assert (forced.status, forced.goal) == (SessionStatus.TERMINATED, Goal.FORCE)
    assert forced.cause == "user-requested"  # the first cause stays
    assert forced.kernels[0].status == "terminating"


@pytest.mark.slow
async def test_a_forced_end_without_a_mark_before_says_so(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")

    forced = await harness.controller.mark_for_termination(session.session_id, ALICE, forced=True)

    assert forced.cause == "forced-by-user"


@pytest.mark.slow
async def test_a_session_that_has_ended_stays_as_it_is(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)
    await harness.place(session.session_id, "a1")
    await harness.controller.mark_for_termination(session.session_id, ALICE)
    ended = await harness.cluster.free(session.session_id, FreeProof.NEVER_SENT)

    assert ended.result is SessionResult.FAILURE
    assert await harness.controller.mark_for_termination(session.session_id, ALICE, forced=True) == ended


async def test_a_long_reason_is_cut_and_not_refused(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)

    marked = await harness.controller.mark_for_termination(session.session_id, ALICE, reason="x" * (DETAIL_MAX + 1))

    assert marked.cause_detail == "x" * DETAIL_MAX


async def test_a_session_of_another_user_is_not_found(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)

    for work in (
        harness.controller.mark_for_termination(session.session_id, BOB),
        harness.controller.mark_for_termination(session.session_id, BOB, forced=True),
        harness.controller.release(session.session_id, BOB),
        harness.controller.cancel(session.session_id, BOB),
        harness.controller.cancel(SessionId("s-missing"), ALICE),
    ):
        await refusal(work, ObjectNotFound)

    assert (await harness.cluster.session(session.session_id)).status is SessionStatus.PENDING


@pytest.mark.parametrize("caller", [CAROL, ROOT])
async def test_admins_end_what_is_in_their_reach(harness: ControllerHarness, caller: Caller) -> None:
    session = await harness.controller.enqueue(HELLO, ALICE)

    cancelled = await harness.controller.cancel(session.session_id, caller)

    assert cancelled.status is SessionStatus.CANCELLED


async def test_a_domain_admin_does_not_reach_another_domain(harness: ControllerHarness) -> None:
    session = await harness.controller.enqueue(HELLO, ROOT)

    await refusal(harness.controller.cancel(session.session_id, CAROL), ObjectNotFound)


async def test_a_plan_stores_nothing_and_says_where_kernels_would_go(harness: ControllerHarness) -> None:
    planned = await harness.controller.plan(session_request(size=2, resources={"gpu": 1}), ALICE)

    assert planned.would_start is When.NOW
    assert planned.placements == ((0, "a1"), (1, "a1"))
    assert planned.slots["cuda.device"] == 2
    assert (planned.size, planned.scaling_group, planned.queue, planned.image) == (2, "default", "default", "host")
    assert await harness.stored() == 0
    assert not await harness.hinted()


async def test_a_plan_of_a_bad_request_is_refused_like_the_request(harness: ControllerHarness) -> None:
    error = await refusal(harness.controller.plan(session_request(size=0), ALICE), InvalidRequest)

    assert error.problems[0].where == "size"


@pytest.mark.slow
async def test_without_a_view_of_the_cluster_there_is_no_plan(harness: ControllerHarness) -> None:
    blind = SchedulingController(
        harness.store,
        Submissions(
            harness.store, ids=harness.ids, clock=harness.clock, names=lambda: "x", secrets=harness.cluster.secrets
        ),
        hints=harness.hints,
    )

    await refusal(blind.plan(HELLO, ALICE), DryRunUnavailable)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["submit", "terminate", "cancel"])
async def test_clients_that_leave_at_any_moment_leave_a_hint_for_what_they_committed(
    harness: ControllerHarness, act: str
) -> None:
    controller, committed = harness.controller, 0
    acts: dict[str, Callable[[SessionId], Awaitable[object]]] = {
        "submit": lambda _: controller.submit(HELLO, ALICE),
        "terminate": lambda session: controller.mark_for_termination(session, ALICE),
        "cancel": lambda session: controller.cancel(session, ALICE),
    }
    for turns in range(60):
        before = await harness.controller.enqueue(session_request(name=f"n{turns}"), ALICE)
        await harness.hinted()
        stored, earlier = await harness.stored(), asyncio.all_tasks()
        # Of two that write at once, one commits for both.
        clients = [asyncio.ensure_future(acts[act](before.session_id)) for _ in range(2)]
        for _ in range(turns):
            await harness.clock.sleep(0)
        for client in clients:
            client.cancel()
        await asyncio.gather(*(asyncio.all_tasks() - earlier), return_exceptions=True)
        await asyncio.gather(*(asyncio.all_tasks() - earlier), return_exceptions=True)
        goal = (await harness.cluster.session(before.session_id)).goal
        changed = await harness.stored() > stored or goal is not Goal.RUN
        assert await harness.hinted() == changed, f"after {turns} turns"
        committed += changed
    assert committed

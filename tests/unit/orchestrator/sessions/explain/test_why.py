"""Answers to why, from a real store and real cycles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import User
from sokovan.domain.records import Change
from sokovan.domain.slots import SlotLimits
from sokovan.orchestrator.sessions.explain import why
from sokovan.orchestrator.sessions.explain.plan import DryRunLimits, DryRuns
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.scheduling.trace import Advice
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, refusal
from tests.unit.orchestrator.sessions.controller_harness import ALICE, BOB, ControllerHarness, controller_harness


@pytest.fixture
async def harness() -> AsyncIterator[ControllerHarness]:
    async with controller_harness() as controller:
        await controller.cluster.agent("a1")
        yield controller


async def test_a_new_session_has_no_verdict_yet(harness: ControllerHarness) -> None:
    session = await harness.submit()

    answer = await harness.controller.why(session.session_id)

    assert (answer.code, answer.verdict, answer.would_start) == ("NOT_SEEN_YET", Advice.WAIT, ())


async def test_suggestions_for_a_session_that_is_too_large(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 8, "cpu": 2})
    await harness.cycle()

    answer = await harness.controller.why(session.session_id)

    assert (answer.code, answer.verdict) == ("NEVER_FITS", Advice.CHANGE)
    assert "lacks cuda.device=4" in answer.summary
    assert [(one.when, one.change) for one in answer.would_start] == [("now", "with cuda.device=4 for each kernel")]
    assert answer.funnel["could_ever_fit"] == 0
    assert {check.name for check in answer.checks} >= {"user-resource-limit", "room"}


@pytest.mark.slow
async def test_a_gang_gets_the_number_of_kernels_that_could_start(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 1}, size=5)
    await harness.cycle()

    answer = await harness.controller.why(session.session_id)

    assert answer.code == "NEVER_FITS"
    assert ("now", "with --minimum 4: 4 of 5 kernels") in [(one.when, one.change) for one in answer.would_start]


async def test_the_verdict_is_explained_while_dry_runs_are_busy(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 8, "cpu": 2})
    await harness.cycle()
    busy = DryRuns(SqlSnapshots(harness.store), limits=DryRunLimits(concurrent_max=0, waiting_max=0))

    answer = await WhyService(harness.store, busy).why(session.session_id)

    assert (answer.code, answer.would_start) == ("NEVER_FITS", ())


@pytest.mark.slow
async def test_without_a_view_of_the_cluster_nothing_is_tried(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 8})
    await harness.cycle()

    answer = await WhyService(harness.store).why(session.session_id)

    assert (answer.code, answer.would_start) == ("NEVER_FITS", ())


@pytest.mark.slow
async def test_a_limit_below_the_request_needs_another_request_and_a_full_one_does_not(
    harness: ControllerHarness,
) -> None:
    await harness.cluster.put(
        ResourcePolicy("two", slots_max=SlotLimits({"cuda.device": 2})),
        User("alice", "lab", groups=("vision",), policy="two"),
    )
    above = await harness.submit(resources={"gpu": 3})
    running = await harness.submit(resources={"gpu": 2})
    await harness.place(running.session_id, "a1")
    full = await harness.submit(resources={"gpu": 1})
    await harness.cycle()

    never, later = [await harness.controller.why(one.session_id) for one in (above, full)]

    assert (never.code, never.verdict) == ("QUOTA_USER", Advice.CHANGE)
    assert never.summary.endswith("3 cuda.device with 2 of 2 in use")
    assert (later.code, later.verdict) == ("QUOTA_USER", Advice.WAIT)
    assert later.summary.endswith("1 cuda.device with 2 of 2 in use")


@pytest.mark.slow
async def test_a_session_that_may_start_is_told_when_it_times_out(harness: ControllerHarness) -> None:
    group = await harness.store.read(lambda unit: unit.catalog.get(ScalingGroup, "default"))
    await harness.cluster.put(replace(group, pending_timeout_s=60))
    large = await harness.submit(name="large", resources={"gpu": 8})
    after = await harness.submit(depends_on=(large.session_id,), resources={"gpu": 8})
    await harness.cycle()

    answer, held = [await harness.controller.why(one.session_id) for one in (large, after)]

    assert answer.as_of_ms is not None
    assert (answer.name, answer.times_out_ms) == ("large", answer.as_of_ms + 60_000)
    assert held.times_out_ms is None


@pytest.mark.slow
async def test_dependencies_are_named(harness: ControllerHarness) -> None:
    first = await harness.submit(name="first")
    second = await harness.submit(depends_on=(first.session_id,))
    await harness.cycle()

    answer = await harness.controller.why(second.session_id)

    assert answer.code == "DEPENDENCY"
    assert answer.summary.startswith(f"first ({first.session_id}) must end first")


@pytest.mark.slow
async def test_the_sessions_ahead_are_listed(harness: ControllerHarness) -> None:
    running = await harness.submit(resources={"gpu": 4})
    await harness.place(running.session_id, "a1")
    await harness.submit(BOB, resources={"gpu": 4}, name="quiet")
    second = await harness.submit(resources={"gpu": 4}, priority=3, name="urgent")
    third = await harness.submit(resources={"gpu": 4}, name="mine")
    await harness.cycle()

    answer = await harness.controller.why(third.session_id)

    assert answer.verdict is Advice.WAIT
    assert answer.position == 2
    assert [(one.session, one.why) for one in answer.ahead] == [
        ("urgent", "has priority 3, this one 0"),
        ("a session of another user", "is earlier in queue default"),
    ]
    assert second.spec.name == "urgent"


async def test_a_started_session_is_explained_by_its_history(harness: ControllerHarness) -> None:
    session = await harness.submit()
    await harness.cycle()
    await harness.place(session.session_id, "a1")
    await harness.cluster.start(session.session_id)

    answer = await harness.controller.why(session.session_id)

    assert (answer.code, answer.summary) == ("RUNNING", "1 of 1 kernels running on a1")


async def test_an_image_that_is_made_ready_is_waited_for(harness: ControllerHarness) -> None:
    session = await harness.submit(image="venv:torch")
    await harness.place(session.session_id, "a1")
    await harness.cluster.move(session.session_id, KernelTrigger.PREPARATION_STARTED)
    await harness.cluster.move(session.session_id, KernelTrigger.PULL_STARTED, BY_AGENT)

    assert (await harness.controller.why(session.session_id)).code == "IMAGE_PULLING"


@pytest.mark.slow
async def test_a_scheduler_failure_takes_precedence_over_the_last_verdict(harness: ControllerHarness) -> None:
    session = await harness.submit(resources={"gpu": 8})
    await harness.cycle()
    change = Change(BY_COORDINATOR.who, BY_COORDINATOR.by, "handler-failed", "there is no sequencer 'x'")
    await harness.store.run(lambda unit: unit.sessions.note([session.session_id], change))

    answer = await harness.controller.why(session.session_id)
    assert (answer.code, answer.summary) == ("RETRY_BACKOFF", "there is no sequencer 'x'")

    await harness.clock.advance(120)
    assert (await harness.controller.why(session.session_id)).code == "NEVER_FITS"


async def test_reasons_of_the_past_come_with_the_answer(harness: ControllerHarness) -> None:
    session = await harness.submit()
    change = Change(BY_COORDINATOR.who, BY_COORDINATOR.by, "NOT_ENOUGH_FREE", "no room")
    for _ in range(3):
        await harness.store.run(lambda unit: unit.sessions.note([session.session_id], change))
        await harness.clock.advance(10)

    (reason,) = (await harness.controller.why(session.session_id)).history

    assert (reason.code, reason.summary, reason.count) == ("NOT_ENOUGH_FREE", "no room", 3)
    assert reason.last_ms - reason.first_ms == 20_000


async def test_an_unknown_session_is_not_there(harness: ControllerHarness) -> None:
    await refusal(harness.controller.why(SessionId("s-missing")), ObjectNotFound)


@pytest.mark.slow
async def test_pending_sessions_are_grouped_by_code(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "PAGE", 2)
    for _ in range(3):
        await harness.submit(resources={"gpu": 8})
        await harness.clock.advance(1)
    await harness.submit(BOB, architecture="aarch64")
    await harness.cycle()
    await harness.submit(resources={"gpu": 1})
    done = await harness.submit()
    await harness.controller.cancel(done.session_id, ALICE)

    answer = await harness.controller.waiting(SessionFilter())

    assert [(one.code, one.sessions) for one in answer] == [
        ("NEVER_FITS", 3),
        ("NOT_SEEN_YET", 1),
        ("NO_ARCH_MATCH", 1),
    ]
    assert answer[0].slots["cuda.device"] == 24
    assert answer[0].verdict is Advice.CHANGE
    assert answer[0].oldest_ms == harness.clock.now_ms() - 3000
    assert all(one.meaning for one in answer)


@pytest.mark.slow
async def test_what_waits_is_counted_for_whom_it_is_asked(harness: ControllerHarness) -> None:
    await harness.submit(ALICE)
    await harness.submit(BOB)

    (mine,) = await harness.controller.waiting(SessionFilter(user="alice"))

    assert mine.sessions == 1
    assert await harness.controller.waiting(SessionFilter(user="missing")) == []

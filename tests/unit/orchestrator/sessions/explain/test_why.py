"""Answers to why, from a real store and real cycles."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import KernelTrigger
from sokovan.domain.policy import ResourcePolicy
from sokovan.domain.records import Change
from sokovan.domain.slots import SlotLimits
from sokovan.domain.tenancy import User
from sokovan.orchestrator.sessions.explain import why
from sokovan.orchestrator.sessions.explain.plan import DryRunLimits, DryRuns
from sokovan.orchestrator.sessions.explain.why import WhyService
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.scheduling.trace import Advice
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, refusal
from tests.unit.orchestrator.sessions.little_controller import ALICE, BOB, LittleController, little_controller


@pytest.fixture
async def little() -> AsyncIterator[LittleController]:
    async with little_controller() as controller:
        await controller.cluster.agent("a1")
        yield controller


async def test_nobody_has_looked_at_a_session_that_came_just_now(little: LittleController) -> None:
    session = await little.submit()

    told = await little.controller.why(session.session_id)

    assert (told.code, told.verdict, told.would_start) == ("NOT_SEEN_YET", Advice.WAIT, ())


async def test_a_session_that_is_too_large_is_told_what_would_start_now(little: LittleController) -> None:
    session = await little.submit(resources={"gpu": 8, "cpu": 2})
    await little.cycle()

    told = await little.controller.why(session.session_id)

    assert (told.code, told.verdict) == ("NEVER_FITS", Advice.CHANGE)
    assert "lacks cuda.device=4" in told.summary
    assert [(one.when, one.change) for one in told.would_start] == [("now", "with cuda.device=4 for each kernel")]
    assert told.funnel["could_ever_fit"] == 0
    assert {check.name for check in told.checks} >= {"user-resource-limit", "room"}


async def test_a_gang_is_told_how_many_of_it_could_start(little: LittleController) -> None:
    session = await little.submit(resources={"gpu": 1}, size=5)
    await little.cycle()

    told = await little.controller.why(session.session_id)

    assert told.code == "NEVER_FITS"
    assert ("now", "with --minimum 4: 4 of 5 kernels") in [(one.when, one.change) for one in told.would_start]


async def test_while_too_much_is_tried_out_a_session_still_hears_why_it_waits(little: LittleController) -> None:
    session = await little.submit(resources={"gpu": 8, "cpu": 2})
    await little.cycle()
    busy = DryRuns(SqlSnapshots(little.store), limits=DryRunLimits(at_a_time=0, waiting_max=0))

    told = await WhyService(little.store, busy).why(session.session_id)

    assert (told.code, told.would_start) == ("NEVER_FITS", ())


async def test_without_a_view_of_the_cluster_nothing_is_tried(little: LittleController) -> None:
    session = await little.submit(resources={"gpu": 8})
    await little.cycle()

    told = await WhyService(little.store).why(session.session_id)

    assert (told.code, told.would_start) == ("NEVER_FITS", ())


async def test_a_limit_below_the_request_is_the_askers_to_change_and_a_full_one_is_not(
    little: LittleController,
) -> None:
    await little.cluster.put(
        ResourcePolicy("two", slots_max=SlotLimits({"cuda.device": 2})),
        User("alice", "lab", groups=("vision",), policy="two"),
    )
    above = await little.submit(resources={"gpu": 3})
    running = await little.submit(resources={"gpu": 2})
    await little.place(running.session_id, "a1")
    full = await little.submit(resources={"gpu": 1})
    await little.cycle()

    never, later = [await little.controller.why(one.session_id) for one in (above, full)]

    assert (never.code, never.verdict) == ("QUOTA_USER", Advice.CHANGE)
    assert never.summary.endswith("3 cuda.device with 2 of 2 in use; that is more than the limit itself")
    assert (later.code, later.verdict) == ("QUOTA_USER", Advice.WAIT)
    assert later.summary.endswith("1 cuda.device with 2 of 2 in use")


async def test_what_is_waited_for_is_told_by_name(little: LittleController) -> None:
    first = await little.submit(name="first")
    second = await little.submit(depends_on=(first.session_id,))
    await little.cycle()

    told = await little.controller.why(second.session_id)

    assert told.code == "DEPENDENCY"
    assert told.summary.startswith(f"first ({first.session_id}) must end first")


async def test_the_line_before_a_session_is_told(little: LittleController) -> None:
    running = await little.submit(resources={"gpu": 4})
    await little.place(running.session_id, "a1")
    first = await little.submit(BOB, resources={"gpu": 4}, name="quiet")
    second = await little.submit(resources={"gpu": 4}, priority=3, name="urgent")
    third = await little.submit(resources={"gpu": 4}, name="mine")
    await little.cycle()

    told = await little.controller.why(third.session_id)

    assert told.verdict is Advice.WAIT
    assert told.position == 2
    assert [(one.session, one.why) for one in told.ahead] == [
        ("urgent", "has priority 3, this one 0"),
        (first.session_id, "is earlier in queue default"),
    ]
    assert second.spec.name == "urgent"


async def test_a_session_that_started_is_told_by_its_story(little: LittleController) -> None:
    session = await little.submit()
    await little.cycle()
    await little.place(session.session_id, "a1")
    await little.cluster.start(session.session_id)

    told = await little.controller.why(session.session_id)

    assert (told.code, told.summary) == ("RUNNING", "1 of 1 kernels running on a1")


async def test_an_image_that_is_made_ready_is_waited_for(little: LittleController) -> None:
    session = await little.submit(image="venv:torch")
    await little.place(session.session_id, "a1")
    await little.cluster.move(session.session_id, KernelTrigger.PREPARATION_STARTED)
    await little.cluster.move(session.session_id, KernelTrigger.PULL_STARTED, BY_AGENT)

    assert (await little.controller.why(session.session_id)).code == "IMAGE_PULLING"


async def test_a_scheduler_that_fails_is_told_before_what_it_said_last(little: LittleController) -> None:
    session = await little.submit(resources={"gpu": 8})
    await little.cycle()
    change = Change(BY_COORDINATOR.who, BY_COORDINATOR.by, "handler-failed", "there is no sequencer 'x'")
    await little.store.run(lambda unit: unit.sessions.note([session.session_id], change))

    told = await little.controller.why(session.session_id)
    assert (told.code, told.summary) == ("RETRY_BACKOFF", "there is no sequencer 'x'")

    await little.clock.advance(120)
    assert (await little.controller.why(session.session_id)).code == "NEVER_FITS"


async def test_reasons_of_the_past_come_with_the_answer(little: LittleController) -> None:
    session = await little.submit()
    change = Change(BY_COORDINATOR.who, BY_COORDINATOR.by, "NOT_ENOUGH_FREE", "no room")
    for _ in range(3):
        await little.store.run(lambda unit: unit.sessions.note([session.session_id], change))
        await little.clock.advance(10)

    (reason,) = (await little.controller.why(session.session_id)).history

    assert (reason.code, reason.summary, reason.count) == ("NOT_ENOUGH_FREE", "no room", 3)
    assert reason.last_ms - reason.first_ms == 20_000


async def test_an_unknown_session_is_not_there(little: LittleController) -> None:
    await refusal(little.controller.why(SessionId("s-nobody")), ObjectNotFound)


async def test_all_that_waits_is_told_by_reason(little: LittleController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "PAGE", 2)
    for _ in range(3):
        await little.submit(resources={"gpu": 8})
        await little.clock.advance(1)
    await little.submit(BOB, architecture="aarch64")
    await little.cycle()
    await little.submit(resources={"gpu": 1})
    done = await little.submit()
    await little.controller.cancel(done.session_id, ALICE)

    told = await little.controller.waiting(SessionFilter())

    assert [(one.code, one.sessions) for one in told] == [("NEVER_FITS", 3), ("NOT_SEEN_YET", 1), ("NO_ARCH_MATCH", 1)]
    assert told[0].slots["cuda.device"] == 24
    assert told[0].verdict is Advice.CHANGE
    assert told[0].oldest_ms == little.clock.now_ms() - 3000
    assert all(one.meaning for one in told)


async def test_what_waits_is_counted_for_whom_it_is_asked(little: LittleController) -> None:
    await little.submit(ALICE)
    await little.submit(BOB)

    (mine,) = await little.controller.waiting(SessionFilter(user="alice"))

    assert mine.sessions == 1
    assert await little.controller.waiting(SessionFilter(user="nobody")) == []

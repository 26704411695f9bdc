"""What the real core would do, on a snapshot that nothing comes back from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Owner, User
from sokovan.domain.session import SessionSpec, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.orchestrator.sessions.explain.explanations import PlannedSession, When
from sokovan.orchestrator.sessions.explain.plan import DryRunBusy, DryRunLimits, DryRuns
from sokovan.orchestrator.sessions.scheduler import decide_in_thread
from sokovan.scheduling.cluster_changes import ClusterChanges
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot, workload_of
from sokovan.scheduling.trace import Advice
from tests.unit.orchestrator.sessions.controller_harness import (
    ALICE,
    ControllerHarness,
    controller_harness,
    session_request,
)

GPUS = {"gpu": 4}


@pytest.fixture
async def harness() -> AsyncIterator[ControllerHarness]:
    async with controller_harness() as controller:
        await controller.cluster.agent("a1")
        yield controller


async def planned(harness: ControllerHarness, **options: Any) -> PlannedSession:
    return await harness.controller.plan(session_request(**options), ALICE)


@pytest.mark.slow
async def test_what_fits_would_start_now(harness: ControllerHarness) -> None:
    answer = await planned(harness, resources=GPUS)

    assert (answer.would_start, answer.code, answer.verdict) == (When.NOW, "PLACED", Advice.NOTHING)
    assert answer.placements == ((0, AgentId("a1")),)


@pytest.mark.slow
async def test_what_has_no_room_now_would_wait_behind_those_who_came_first(harness: ControllerHarness) -> None:
    await harness.submit(resources=GPUS, name="first")
    await harness.submit(resources=GPUS, name="second")

    answer = await planned(harness, resources=GPUS)

    assert answer.would_start is When.WAITS
    assert answer.verdict is Advice.WAIT
    assert answer.position == 1  # the first would be placed, the second waits
    assert answer.funnel["could_ever_fit"] == 1
    assert answer.funnel["fits_now"] == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"resources": {"gpu": 5}}, "NEVER_FITS"),
        ({"resources": {"gpu": 2}, "size": 3}, "NEVER_FITS"),
        ({"architecture": "aarch64"}, "NO_ARCH_MATCH"),
        ({"require": {"zone": "moon"}}, "NO_LABEL_MATCH"),
        ({"size": 2, "topology": TopologyConstraint(TopologyMode.HARD, "rack")}, "TOPOLOGY_IMPOSSIBLE"),
    ],
)
async def test_what_no_agent_could_hold_would_never_start(
    harness: ControllerHarness, options: dict[str, Any], code: str
) -> None:
    answer = await planned(harness, **options)

    assert (answer.would_start, answer.code, answer.verdict) == (When.NEVER, code, Advice.CHANGE)
    assert answer.placements == ()
    assert answer.summary


@pytest.mark.slow
async def test_what_is_more_than_the_owner_may_ever_use_would_never_start(harness: ControllerHarness) -> None:
    await harness.cluster.put(
        ResourcePolicy("two", slots_max=SlotLimits({"cuda.device": 2})),
        User("alice", "lab", groups=("vision",), policy="two"),
    )

    assert (await planned(harness, resources={"gpu": 2})).would_start is When.NOW
    too_much = await planned(harness, resources={"gpu": 3})
    assert (too_much.would_start, too_much.code, too_much.verdict) == (When.NEVER, "QUOTA_USER", Advice.CHANGE)
    assert ("user-resource-limit", "never") in [(check.name, check.result) for check in too_much.checks]


@pytest.mark.slow
async def test_a_limit_that_is_only_full_now_is_waited_for(harness: ControllerHarness) -> None:
    await harness.cluster.put(
        ResourcePolicy("two", slots_max=SlotLimits({"cuda.device": 2})),
        User("alice", "lab", groups=("vision",), policy="two"),
    )
    session = await harness.submit(resources={"gpu": 2})
    await harness.place(session.session_id, "a1")

    answer = await planned(harness, resources={"gpu": 1})

    assert (answer.would_start, answer.code, answer.verdict) == (When.WAITS, "QUOTA_USER", Advice.WAIT)
    assert ("user-resource-limit", "no") in [(check.name, check.result) for check in answer.checks]


async def test_nothing_starts_without_agents_but_one_may_join() -> None:
    async with controller_harness() as empty:
        answer = await planned(empty)

    assert (answer.would_start, answer.code) == (When.WAITS, "NO_NODES")


async def test_the_dry_run_sees_what_was_written_just_before(harness: ControllerHarness) -> None:
    assert (await planned(harness, resources=GPUS)).would_start is When.NOW
    session = await harness.submit(resources=GPUS)
    await harness.place(session.session_id, "a1")

    assert (await planned(harness, resources=GPUS)).would_start is When.WAITS


@pytest.mark.slow
async def test_a_session_is_tried_as_it_might_be_in_the_place_it_has(harness: ControllerHarness) -> None:
    blocked = await harness.submit(resources={"gpu": 5})
    runs = DryRuns(SqlSnapshots(harness.store))
    as_it_is = workload_of(blocked.spec, submitted=blocked.place)
    smaller = replace(as_it_is, kernels=(replace(as_it_is.kernels[0], slots=ResourceSlot({"cpu": 1000})),))

    outcomes = await runs.of_changed(blocked, [as_it_is, smaller])

    assert [outcome.when for outcome in outcomes] == [When.NEVER, When.NOW]
    assert outcomes[1].agents == ((0, AgentId("a1")),)


async def test_a_session_that_no_longer_waits_is_not_tried(harness: ControllerHarness) -> None:
    session = await harness.submit()
    await harness.controller.cancel(session.session_id, ALICE)

    runs = DryRuns(SqlSnapshots(harness.store))

    assert await runs.of_changed(session, [workload_of(session.spec, submitted=session.place)]) == []


@pytest.mark.slow
async def test_many_dry_runs_at_a_time_share_one_source(harness: ControllerHarness) -> None:
    seen: list[int] = []

    async def decide(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        seen.append(len(snapshot.sessions))
        return await decide_in_thread(snapshot, profile)

    session = await harness.submit()
    runs = DryRuns(SqlSnapshots(harness.store), decide)
    outcomes = await asyncio.gather(*[runs.of_new(another(harness, session.spec)) for _ in range(5)])

    assert {outcome.when for outcome in outcomes} == {When.NOW}
    assert seen == [2] * 5


async def test_a_closed_queue_asks_for_an_administrator(harness: ControllerHarness) -> None:
    session = await harness.submit()
    await harness.cluster.put(Queue(QueueName("default"), state=QueueState.CLOSED))
    runs = DryRuns(SqlSnapshots(harness.store))

    (outcome,) = await runs.of_changed(session, [workload_of(session.spec, submitted=session.place)])

    assert (outcome.verdict.code, outcome.when) == ("QUEUE_CLOSED", When.WAITS)


class Slow:
    """A core that decides once it may, and counts those that it thinks about at a time."""

    def __init__(self) -> None:
        self.may, self.begun, self.now, self.most = asyncio.Event(), asyncio.Event(), 0, 0

    async def __call__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        self.begun.set()
        self.now += 1
        self.most = max(self.most, self.now)
        await self.may.wait()
        self.now -= 1
        return await decide_in_thread(snapshot, profile)

    async def reached(self, count: int) -> None:
        """Wait until so many have begun."""
        async with asyncio.timeout(60):
            while self.now < count:
                await SystemClock().sleep(0.01)


@pytest.mark.slow
async def test_few_are_tried_at_a_time_and_not_too_many_wait_for_that(harness: ControllerHarness) -> None:
    session, slow = await harness.submit(), Slow()
    runs = DryRuns(SqlSnapshots(harness.store), slow, limits=DryRunLimits(concurrent_max=2, waiting_max=3))
    runs_under_way = [asyncio.ensure_future(runs.of_new(another(harness, session.spec))) for _ in range(5)]
    await slow.reached(2)

    with pytest.raises(DryRunBusy) as refusal:
        await runs.of_new(session.spec)

    assert (refusal.value.code, slow.most) == ("dry-run-busy", 2)
    slow.may.set()
    assert {outcome.when for outcome in await asyncio.gather(*runs_under_way)} == {When.NOW}
    assert slow.most == 2
    assert (await runs.of_new(another(harness, session.spec))).when is When.NOW


@pytest.mark.slow
async def test_a_user_has_few_dry_runs_under_way_whatever_the_key(harness: ControllerHarness) -> None:
    session, slow = await harness.submit(), Slow()
    runs = DryRuns(SqlSnapshots(harness.store), slow, limits=DryRunLimits(waiting_max=9, per_user_max=2))
    owner = session.spec.owner
    under_way = [
        asyncio.ensure_future(runs.of_new(replace(another(harness, session.spec), owner=one)))
        for one in (owner, replace(owner, access_key=AccessKey("second")), Owner(user="bob"))
    ]
    await slow.reached(1)  # all have been counted before

    with pytest.raises(DryRunBusy, match="2 dry runs of user alice"):
        await runs.of_new(replace(session.spec, owner=replace(owner, access_key=AccessKey("third"))))

    slow.may.set()
    await asyncio.gather(*under_way)
    assert await answered(runs, another(harness, session.spec)) is When.NOW


@pytest.mark.slow
async def test_what_waits_too_long_is_given_up_and_what_has_begun_is_not(harness: ControllerHarness) -> None:
    session, slow = await harness.submit(), Slow()
    runs = DryRuns(SqlSnapshots(harness.store), slow, limits=DryRunLimits(concurrent_max=1, timeout_s=0.01))
    begun = asyncio.ensure_future(runs.of_new(another(harness, session.spec)))
    await slow.begun.wait()

    for _ in range(2):
        with pytest.raises(DryRunBusy, match="waited more than"):
            await runs.of_new(another(harness, session.spec))

    assert not begun.done()
    slow.may.set()
    assert (await begun).when is When.NOW
    assert slow.most == 1
    assert await answered(runs, another(harness, session.spec)) is When.NOW


@pytest.mark.slow
async def test_suggestions_that_take_too_long_are_given_up(harness: ControllerHarness) -> None:
    session, slow = await harness.submit(), Slow()
    runs = DryRuns(SqlSnapshots(harness.store), slow, limits=DryRunLimits(timeout_s=0.01))

    with pytest.raises(DryRunBusy, match="the dry runs took more than"):
        await runs.of_changed(session, [workload_of(session.spec, submitted=session.place)])


async def answered(runs: DryRuns, spec: SessionSpec) -> When:
    """When a session would start; a machine that is too busy for the short limit is asked again."""
    while True:
        try:
            return (await runs.of_new(spec)).when
        except DryRunBusy:
            continue


def another(harness: ControllerHarness, spec: SessionSpec) -> SessionSpec:
    """The same session under ids of its own."""
    kernels = tuple(replace(kernel, kernel_id=KernelId(harness.cluster.new("k"))) for kernel in spec.kernels)
    return replace(spec, session_id=SessionId(harness.cluster.new("s")), kernels=kernels)


@pytest.mark.slow
async def test_a_cycle_after_changes_is_planned_beside_the_next_one(harness: ControllerHarness) -> None:
    await harness.submit(resources=GPUS, name="first")
    changes = ClusterChanges(drain=frozenset({AgentId("a1")}))
    cycles = await harness.controller.dry_cycles(DEFAULT_SCALING_GROUP, "alice", changes)
    assert (len(cycles.now.placements), len(cycles.after.placements)) == (1, 0)
    same = await harness.controller.dry_cycles(DEFAULT_SCALING_GROUP, "alice")
    assert same.now is same.after

"""Scheduling cycles: when they run, what becomes fact, what is tried again."""

from typing import ClassVar

import pytest

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.session import SessionType
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.scheduler import Decide, Scheduler, decide_in_thread
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import AgentChanged, AllocationContext, AllocationResult
from sokovan.scheduling.plan import Eviction, Placement, SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.selectors.base import AgentSelection
from sokovan.scheduling.snapshot import Reservation, SessionWorkload, SystemSnapshot
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once


class Counted:
    """A scheduler core that counts its calls."""

    def __init__(self, plan: SchedulingPlan | None = None) -> None:
        self.times, self._plan = 0, plan

    async def __call__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        self.times += 1
        return self._plan or await decide_at_once(snapshot, profile)


def scheduler(cluster: OrchestratedCluster, decide: Decide) -> Scheduler:
    verdicts = VerdictCache(BatchWriter(cluster.store), cluster.clock)
    return Scheduler(cluster.stored.snapshots, cluster.stored.allocator, verdicts, clock=cluster.clock, decide=decide)


@pytest.mark.slow
async def test_a_cycle_places_what_fits_and_counts_what_waits(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1", slots={"cpu": 1000, "mem": 1 << 30})
    await cluster.submit("first")
    await cluster.submit("second")
    made = scheduler(cluster, Counted())
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert (report.placed, report.waiting, report.refused) == (1, 1, {})
    assert report.decide_s is not None


async def test_nothing_changed_nothing_decided(cluster: OrchestratedCluster) -> None:
    await cluster.submit("s")
    decide = Counted()
    made = scheduler(cluster, decide)
    for _ in range(3):
        await made.refresh()
        await made.run(fence=None, always=False)
    assert decide.times <= 2  # once for the session, once for the reservation table that the first one wrote
    before = decide.times
    await made.refresh()
    await made.run(fence=None, always=False)
    assert decide.times == before
    await made.run(fence=None, always=True)
    assert decide.times == before + 1


@pytest.mark.slow
async def test_a_change_without_pending_sessions_is_processed_for_later_ones(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    decide = Counted()
    made = scheduler(cluster, decide)
    await made.refresh()
    await made.run(fence=None, always=False, pending=False)
    assert decide.times == 0
    report = await made.run(fence=None, always=False, pending=True)
    assert report.placed == 1


@pytest.mark.slow
async def test_a_refused_allocation_is_retried_soon(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    nowhere = SchedulingPlan(placements=(Placement(KernelId("s.0"), SessionId("s"), AgentId("gone")),))
    decide = Counted(nowhere)
    made = scheduler(cluster, decide)
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert list(report.refused) == ["s"]
    assert made.next_due_s() == 0.5
    await made.run(fence=None, always=False)
    assert decide.times == 1
    await cluster.clock.advance(0.5)
    await made.run(fence=None, always=False)
    assert decide.times == 2


@pytest.mark.slow
async def test_a_start_at_a_later_time_is_a_time_to_wake_up(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    at = cluster.clock.now_ms() + 7_000
    await cluster.submit("s", session_type=SessionType.BATCH, starts_at_ms=at)
    made = scheduler(cluster, Counted())
    await made.refresh()
    await made.run(fence=None, always=False)
    assert made.next_due_s() == 7.0
    made.clear()
    assert made.next_due_s() is None


@pytest.mark.slow
async def test_evictions_are_in_the_report(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("victim", session_type=SessionType.BATCH)
    await cluster.settle()
    await cluster.submit("s")
    eviction = Eviction(KernelId("victim.0"), SessionId("victim"), AgentId("a1"), for_session=SessionId("s"))
    reservation = Reservation(SessionId("s"), ((KernelId("s.0"), AgentId("a1")),))
    made = scheduler(cluster, Counted(SchedulingPlan(evictions=(eviction,), reservations=(reservation,))))
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert [(one.session_id, one.status) for one in report.evicted] == [("victim", "terminating")]
    await made.refresh()
    await made.run(fence=None, always=True)
    assert made.next_due_s() == 0.5  # what was evicted cannot be evicted again: it decides anew soon


@pytest.mark.slow
async def test_agents_and_groups_are_those_of_the_last_refresh(cluster: OrchestratedCluster) -> None:
    made = scheduler(cluster, Counted())
    await made.refresh()
    await cluster.agent("a1")
    assert made.agents() == {}
    await made.refresh()
    assert list(made.agents()) == ["a1"]
    assert [group.name for group in made.scaling_groups()] == ["default"]


@pytest.mark.slow
async def test_deciding_in_a_thread_gives_the_same_plan(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.submit("s")
    snapshots = cluster.stored.snapshots
    await snapshots.refresh()
    snapshot = await snapshots.snapshot(snapshots.scaling_groups()[0])
    profile = SchedulingProfile()
    assert await decide_in_thread(snapshot, profile) == await decide_at_once(snapshot, profile)


class EnhancedAllocator(RepositoryAllocator):
    """Does more than allocate, and refuses a session by its name."""

    name = "enhanced"
    recorded: ClassVar[list[str]] = []

    async def allocate(
        self, session: SessionWorkload, agent_selection: AgentSelection, context: AllocationContext
    ) -> AllocationResult:
        if session.session_id == "refused":
            raise AgentChanged(session_id=session.session_id, problem="it is not wanted")
        result = await super().allocate(session, agent_selection, context)
        self.recorded.append(f"{result.session_id} on {agent_selection.agent_id}")
        return result


@pytest.mark.slow
async def test_an_allocator_that_overrides_the_method_for_one_session_gets_every_session_by_it(
    cluster: OrchestratedCluster,
) -> None:
    for name in ("a1", "a2"):
        await cluster.agent(name, slots={"cpu": 2000, "mem": 2 << 30})
    await cluster.submit("one")
    await cluster.submit("refused")
    await cluster.submit("gang", kernels=2, slots={"cpu": 1000, "mem": 1 << 30})
    verdicts = VerdictCache(BatchWriter(cluster.store), cluster.clock)
    allocator = EnhancedAllocator(cluster.stored.store)
    made = Scheduler(cluster.stored.snapshots, allocator, verdicts, clock=cluster.clock, decide=Counted())
    await made.refresh()
    report = await made.run(fence=None, always=True)
    assert EnhancedAllocator.recorded[0] == "one on a1"
    assert report.placed == 3
    assert {session: error.problem for session, error in report.refused.items()} == {"refused": "it is not wanted"}
    assert {kernel.status for kernel in (await cluster.session("gang")).kernels} == {"scheduled"}


async def test_while_nothing_changes_only_what_the_time_changes_is_decided_in_long_cycles(
    cluster: OrchestratedCluster,
) -> None:
    await cluster.submit("waits")
    made = scheduler(cluster, Counted())
    assert made.is_repeat_due()
    await made.refresh()
    await made.run(fence=None, always=False)
    assert not made.is_repeat_due()
    await cluster.clock.advance(299)
    assert not made.is_repeat_due()
    await cluster.clock.advance(1)  # in case that a rule is not known to look at the time
    assert made.is_repeat_due()
    await cluster.submit("later", session_type=SessionType.BATCH, starts_at_ms=cluster.clock.now_ms() + 60_000)
    await made.refresh()
    await made.run(fence=None, always=False)
    assert made.is_repeat_due()


async def test_a_group_that_cannot_be_scheduled_is_tried_in_every_long_cycle(cluster: OrchestratedCluster) -> None:
    async def fails(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        raise LookupError(f"no plan for {len(snapshot.sessions)} by {profile.sequencer}")

    await cluster.submit("s")
    made = scheduler(cluster, fails)
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert list(report.failed_groups) == ["default"]
    assert made.is_repeat_due()


async def test_a_long_decision_is_repeated_less_often(cluster: OrchestratedCluster) -> None:
    async def slow(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        await cluster.clock.advance(4)
        return await decide_at_once(snapshot, profile)

    at_ms = cluster.clock.now_ms() + 3_600_000
    await cluster.submit("later", session_type=SessionType.BATCH, starts_at_ms=at_ms)
    made = scheduler(cluster, slow)
    await made.refresh()
    await made.run(fence=None, always=False)
    await cluster.clock.advance(79)
    assert not made.is_repeat_due()  # four seconds of work in eighty
    await cluster.clock.advance(1)
    assert made.is_repeat_due()

"""Plans are applied in slices: what is left, who comes in between, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.owners import turns
from sokovan.domain.owners.tenancy import Owner
from sokovan.orchestrator import plan_allocator
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.ports.allocation import Assignment, BatchResult
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once


class Decisions:
    """A scheduler core that counts its calls."""

    times = 0

    async def __call__(self, snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
        self.times += 1
        return await decide_at_once(snapshot, profile)


async def statuses(cluster: OrchestratedCluster, *names: str) -> list[str]:
    return [await cluster.status(name) for name in names]


async def planned(cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[Scheduler, Decisions]:
    """Four sessions of one user, of which a slice of two is placed."""
    monkeypatch.setattr(turns, "SMALL_SLICE", 2)
    await cluster.agent("a1", slots={"cpu": 5000, "mem": 5 << 30})
    for number in range(4):
        await cluster.submit(f"s{number}", owner=Owner(user="ada"))
    decide = Decisions()
    verdicts = VerdictCache(BatchWriter(cluster.store), cluster.clock)
    made = Scheduler(cluster.stored.snapshots, cluster.stored.allocator, verdicts, clock=cluster.clock, decide=decide)
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert (report.placed, report.is_continued, made.plans.unapplied) == (2, False, ["s2", "s3"])
    return made, decide


@pytest.mark.slow
async def test_a_plan_is_applied_in_slices_and_nothing_is_decided_meanwhile(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, decide = await planned(cluster, monkeypatch)
    assert await statuses(cluster, "s0", "s1", "s2", "s3") == ["scheduled"] * 2 + ["pending"] * 2
    await cluster.stop("s2")
    made.plans.known = {SessionId("s2"): await cluster.session("s2")}.get
    await made.refresh()
    report = await made.run(fence=None, always=True)
    assert (report.placed, report.refused, report.is_continued, made.plans.unapplied) == (1, {}, True, [])
    assert (await cluster.status("s3"), decide.times) == ("scheduled", 1)
    await made.refresh()
    assert not (await made.run(fence=None, always=False)).is_continued


@pytest.mark.slow
async def test_a_user_who_comes_while_a_plan_is_applied_gets_a_place_that_is_not_planned(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, decide = await planned(cluster, monkeypatch)
    for user in ("ada", "bob", "cyd"):
        await cluster.submit(user, owner=Owner(user=user))
    await cluster.submit("s9", owner=Owner(user="ada"))
    unplanned = [made.plans.is_unplanned(await cluster.session(name)) for name in ("s2", "ada", "bob")]
    assert unplanned == [False, False, True]
    made.plans.hides = lambda session_id: session_id.startswith("s")
    await made.refresh()
    report = await made.run(fence=None, always=False, anew=True)
    # Of five places two are taken and two planned: the oldest of the others gets the last one.
    assert (report.placed, report.waiting, report.refused, decide.times) == (1, 2, {}, 2)
    assert await statuses(cluster, "ada", "bob", "cyd", "s2") == ["scheduled", "pending", "pending", "pending"]
    assert not made.plans.is_unplanned(await cluster.session("bob"))
    made.plans.hides = lambda _session_id: False
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert (report.placed, report.refused, decide.times) == (2, {}, 2)
    await made.refresh()
    report = await made.run(fence=None, always=False)  # what was hidden before is decided now
    assert (report.placed, report.waiting, decide.times) == (0, 3, 3)
    made.clear()
    assert made.plans.is_unplanned(await cluster.session("s3"))


@pytest.mark.slow
async def test_what_is_left_of_a_plan_is_refused_with_a_reason_if_its_agent_is_gone(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, decide = await planned(cluster, monkeypatch)
    await cluster.agent("a1", slots={"cpu": 5000, "mem": 5 << 30})  # it enrols again
    await made.refresh()
    report = await made.run(fence=None, always=False)
    assert (sorted(report.refused), decide.times, made.next_due_s()) == (["s2", "s3"], 1, 0.5)
    stored = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("s2")))
    assert stored is not None
    assert stored.code == Code.ALLOCATION_REFUSED.value


async def test_a_very_large_session_is_allocated_alone_in_the_cycle_after_its_decision(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_allocator, "ALONE", 2)
    together: list[list[str]] = []
    allocate = cluster.stored.allocator.allocate_planned

    async def noted(batch: Sequence[Assignment], *rest: Any) -> BatchResult:
        together.append([one.session_id for one in batch])
        return await allocate(batch, *rest)

    monkeypatch.setattr(cluster.stored.allocator, "allocate_planned", noted)
    await cluster.agent("a1", slots={"cpu": 9000, "mem": 9 << 30})
    await cluster.submit("gang", kernels=3, owner=Owner(user="ada"))
    await cluster.submit("shell", owner=Owner(user="bob"))
    decide = Decisions()
    verdicts = VerdictCache(BatchWriter(cluster.store), cluster.clock)
    made = Scheduler(cluster.stored.snapshots, cluster.stored.allocator, verdicts, clock=cluster.clock, decide=decide)
    await made.refresh()
    await made.run(fence=None, always=False)
    assert (together, made.plans.unapplied) == ([["shell"]], ["gang"])
    await cluster.submit("later", owner=Owner(user="cyd"))
    await made.refresh()
    # It is not passed over again for those who came later, which are allocated before it.
    await made.run(fence=None, always=False, anew=True)
    assert (together[1:], made.plans.unapplied, decide.times) == ([["later"], ["gang"]], [], 2)
    assert await statuses(cluster, "gang", "shell", "later") == ["scheduled"] * 3

"""Policies that depend on earlier cycles or on several scaling groups, on a stored cluster."""

from collections import Counter

import pytest

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import AccessKey, ScalingGroupName
from sokovan.domain.owners.tenancy import Owner
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.orchestrator.sessions.scheduler import Scheduler
from sokovan.orchestrator.sessions.verdict_cache import VerdictCache
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import decide_at_once
from sokovan.testing.stored_cluster import DEFAULT_GROUP

pytestmark = pytest.mark.slow

ROUND_ROBIN = ScalingGroup(name=DEFAULT_GROUP, scheduler_opts={"agent_selector": "roundrobin"})
TOO_MANY_NOW = {"cpu": 8000}
CPU, GPU = (ScalingGroup(name=ScalingGroupName(name), scheduler="drf") for name in ("cpu", "gpu"))
ALICE, BOB = (Owner(user=name, access_key=AccessKey(name)) for name in ("alice", "bob"))


async def run_cycle(cluster: OrchestratedCluster) -> None:
    """Schedule all scaling groups once, without the other steps of a coordinator."""
    verdicts = VerdictCache(BatchWriter(cluster.store), cluster.clock)
    stored = cluster.stored
    scheduler = Scheduler(stored.snapshots, stored.allocator, verdicts, clock=cluster.clock, decide=decide_at_once)
    await scheduler.refresh()
    report = await scheduler.run(fence=None, always=True)
    assert (report.refused, report.failed_groups) == ({}, {})


async def placed_by_user(cluster: OrchestratedCluster, *users: Owner, count: int) -> Counter[str]:
    """The numbers of placed sessions among `count` of each user, named by user and number."""
    names = [f"{owner.user}-{number}" for owner in users for number in range(count)]
    found = [await cluster.session(name) for name in names]
    return Counter(one.spec.owner.user for one in found if one.kernels[0].agent_id is not None)


async def test_round_robin_takes_the_next_agent_while_another_session_waits(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(ROUND_ROBIN)
    for name in ("a1", "a2", "a3"):
        await cluster.agent(name)
    for turn in range(3):
        await cluster.submit(f"old{turn}")
    await cluster.settle()
    await cluster.submit("waits", slots=TOO_MANY_NOW)
    places = []
    for turn in range(6):
        await cluster.settle()
        await cluster.submit(f"s{turn}")
        await cluster.settle()
        places += [kernel.agent_id for kernel in (await cluster.session(f"s{turn}")).kernels]
    assert await cluster.status("waits") == "pending"
    assert places == ["a1", "a2", "a3", "a1", "a2", "a3"]


async def test_the_share_of_a_user_in_a_scaling_group_counts_what_runs_there(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(CPU, GPU)
    await cluster.stored.agent("g1", slots={"cpu": 8000, "cuda.device": 1}, scaling_group=GPU.name)
    await cluster.stored.agent("c1", slots={"cpu": 8000}, scaling_group=CPU.name)
    await cluster.submit("training", slots={"cpu": 8000, "cuda.device": 1}, owner=ALICE, scaling_group=GPU.name)
    await run_cycle(cluster)
    for owner in (BOB, ALICE):
        for number in range(8):
            name = f"{owner.user}-{number}"
            await cluster.submit(name, slots={"cpu": 1000}, owner=owner, scaling_group=CPU.name)
    await run_cycle(cluster)
    assert (await cluster.session("training")).kernels[0].agent_id == "g1"
    assert await placed_by_user(cluster, ALICE, BOB, count=8) == {"alice": 4, "bob": 4}


async def test_what_runs_in_the_same_scaling_group_counts_from_cycle_to_cycle(cluster: OrchestratedCluster) -> None:
    await cluster.stored.put(CPU)
    await cluster.stored.agent("c1", slots={"cpu": 8000}, scaling_group=CPU.name)
    await cluster.submit("old", slots={"cpu": 4000}, owner=ALICE, scaling_group=CPU.name)
    await run_cycle(cluster)
    for owner in (ALICE, BOB):
        for number in range(4):
            name = f"{owner.user}-{number}"
            await cluster.submit(name, slots={"cpu": 1000}, owner=owner, scaling_group=CPU.name)
    await run_cycle(cluster)
    assert await placed_by_user(cluster, ALICE, BOB, count=4) == {"bob": 4}

"""Managers die and others take over, at every moment; no work is lost or done twice."""

from contextlib import suppress
from typing import Any

import pytest

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.records import SessionResult
from sokovan.domain.session import EndPolicy, SessionType
from sokovan.testing.acting_agents import Fault
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.stored_cluster import BY_USER, DEFAULT_GROUP
from tests.scenario.killable_manager import KillableAllocator, KillableGateway, KillableStore, Killed, KillPoint

pytestmark = pytest.mark.slow


async def a_day(cluster: OrchestratedCluster) -> None:
    """A gang that ends well, one that is stopped, one whose agent does not answer at first."""
    agent = cluster.agents.all[next(iter(cluster.agents.all))]
    await cluster.submit("gang", kernels=2, ends_with=EndPolicy.ALL)
    await cluster.submit("stopped")
    await cluster.settle()
    await agent.ends("gang.0", 0)
    await agent.ends("gang.1", 0)
    await cluster.store.run(lambda unit: unit.sessions.set_goal(SessionId("stopped"), Goal.STOP, BY_USER))
    await cluster.settle()


def killable(cluster: OrchestratedCluster, kill_point: KillPoint) -> dict[str, object]:
    return {
        "store": KillableStore(cluster.store, kill_point),
        "allocator": KillableAllocator(cluster.stored.allocator, kill_point),
        "gateway": KillableGateway(cluster.agents, kill_point),
    }


async def test_a_manager_may_die_at_any_moment_and_another_finishes_its_work(cluster: OrchestratedCluster) -> None:
    kill_point = KillPoint()
    await cluster.agent("a1")
    cluster.coordinator = cluster.new_coordinator(**killable(cluster, kill_point))
    await a_day(cluster)
    assert kill_point.acts > 10
    for at in range(1, kill_point.acts + 1):
        for after in (False, True):
            async with OrchestratedCluster.open() as other:
                await lives_through(other, KillPoint(at=at, after=after))


async def lives_through(cluster: OrchestratedCluster, kill_point: KillPoint) -> None:
    """The day, with a manager that dies in the middle of it."""
    agent = await cluster.agent("a1")
    cluster.coordinator = cluster.new_coordinator(**killable(cluster, kill_point))
    with suppress(Killed):
        await a_day(cluster)
    assert kill_point.dead
    await cluster.fail_over()
    await cluster.settle()
    # People and kernels do the rest of what they would have done.
    for kernel in ("gang.0", "gang.1"):
        if kernel in agent.running():
            await agent.ends(kernel, 0)
    await cluster.stop("stopped")
    await cluster.pass_time(1)
    await cluster.pass_time(24, step_s=12)
    gang, stopped = await cluster.session("gang"), await cluster.session("stopped")
    assert (gang.status.value, gang.result) == ("terminated", SessionResult.SUCCESS)
    assert stopped.status.value in {"terminated", "cancelled"}
    assert await cluster.used("a1") == {}
    assert agent.running() == []


async def an_eviction(cluster: OrchestratedCluster, kill_point: KillPoint) -> int:
    """A session makes room for another one; the number of acts before that."""
    evicting = ScalingGroup(name=DEFAULT_GROUP, scheduler_opts={"actions": ["enqueue", "allocate", "preempt"]})
    await cluster.stored.put(evicting, Queue(QueueName("default"), min_runtime_s=0))
    await cluster.agent("a1", slots={"cpu": 4000})
    cluster.coordinator = cluster.new_coordinator(**killable(cluster, kill_point))
    work: dict[str, Any] = {"slots": {"cpu": 2000}, "kernels": 2, "session_type": SessionType.BATCH}
    await cluster.submit("low", **work)
    await cluster.settle()
    begun = kill_point.acts
    await cluster.submit("high", priority=5, **work)
    with suppress(Killed):
        await cluster.settle()
    return begun


async def test_a_manager_may_die_at_any_moment_of_an_eviction_and_another_completes_it(
    cluster: OrchestratedCluster,
) -> None:
    kill_point = KillPoint()
    begun = await an_eviction(cluster, kill_point)
    assert kill_point.acts > begun + 5
    for at in range(begun + 1, kill_point.acts + 1):
        for after in (False, True):
            async with OrchestratedCluster.open() as other:
                await completes_eviction(other, KillPoint(at=at, after=after))


async def completes_eviction(cluster: OrchestratedCluster, kill_point: KillPoint) -> None:
    """The eviction, with a manager that dies in the middle of it."""
    await an_eviction(cluster, kill_point)
    assert kill_point.dead
    await cluster.fail_over()
    await cluster.pass_time(3)
    low = await cluster.session("low")
    assert (await cluster.status("high"), low.status, [one.number for one in low.evictions]) == (
        "running",
        "pending",
        [1],
    )
    agent = next(iter(cluster.agents.all.values()))
    assert sorted(agent.running()) == ["high.0", "high.1"]
    for kernel in ("high.0", "high.1"):
        await agent.ends(kernel, 0)
    await cluster.pass_time(60, step_s=10)
    assert (await cluster.status("low"), sorted(agent.running())) == ("running", ["low.0", "low.1"])


async def test_one_of_two_coordinators_works_and_the_other_waits_for_its_turn(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    first, second = cluster.coordinator, cluster.new_coordinator()
    await first.tick()
    await cluster.submit("s")
    assert not await second.tick()
    assert await cluster.status("s") == "pending"
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await first.close()
    cluster.coordinator = second
    await cluster.clock.advance(4)
    await cluster.stop("s")
    await cluster.settle()
    assert await cluster.status("s") == "terminated"


async def test_a_paused_leader_changes_nothing_when_it_comes_back(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    paused = cluster.coordinator
    await paused.tick()
    await cluster.clock.advance(3)  # it has just renewed its lease, in its own opinion
    await cluster.fail_over()
    await cluster.tick()
    await cluster.submit("s")
    paused.leadership._renewed_ms = cluster.clock.monotonic_ms()  # its pause began here
    assert not await paused.tick()
    assert await cluster.status("s") == "pending"
    assert paused.leadership.fence is None
    assert cluster.telemetry.counted("fenced_out_total", coordinator="sessions") == 1
    await cluster.settle()
    assert await cluster.status("s") == "running"
    await paused.close()


async def test_a_leader_that_stops_lets_another_begin_at_once(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.tick()
    await cluster.coordinator.close()
    cluster.coordinator = cluster.new_coordinator()
    await cluster.submit("s")
    await cluster.settle()
    assert await cluster.status("s") == "running"


@pytest.mark.parametrize("kind", ["prepare", "create", "stop"])
async def test_what_a_dead_leader_had_asked_for_is_asked_for_again(cluster: OrchestratedCluster, kind: str) -> None:
    agent = await cluster.agent("a1")
    agent.faults[kind] = Fault.HANGS
    await cluster.submit("s")
    await cluster.tick()
    if kind == "stop":
        await cluster.settle()
        await cluster.stop("s")
        await cluster.tick()
    agent.faults.clear()
    dead = cluster.coordinator
    await cluster.fail_over()
    await cluster.pass_time(12)
    assert await cluster.status("s") == ("terminated" if kind == "stop" else "running")
    assert sum(agent.started.values()) == 1
    await dead.close()

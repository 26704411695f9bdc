"""Heartbeat timeouts count from the last report, on this process's clock."""

import asyncio

import pytest

from sokovan.agent.messages import DevicesChecked
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.orchestrator.periodic_tasks import PeriodicTask, TaskFailure
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, Timing
from sokovan.orchestrator.sessions.context import CycleInput
from sokovan.testing.orchestrated_cluster import OrchestratedCluster

pytestmark = pytest.mark.slow


async def status(cluster: OrchestratedCluster, name: str = "a1") -> AgentStatus:
    return (await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))).info.status


async def test_the_time_of_day_may_jump_without_harm(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.settle()
    cluster.clock.jump(3_600)
    await cluster.pass_time(3)
    cluster.clock.jump(-7_200)
    await cluster.pass_time(3)
    assert await status(cluster) is AgentStatus.ALIVE


async def test_an_agent_without_any_report_becomes_suspect(cluster: OrchestratedCluster) -> None:
    await cluster.stored.agent("ghost")
    await cluster.pass_time(17)
    assert await status(cluster, "ghost") is AgentStatus.SUSPECT
    await cluster.pass_time(45)
    assert await status(cluster, "ghost") is AgentStatus.LOST


async def test_many_overdue_agents_are_moved_in_one_transaction() -> None:
    async with OrchestratedCluster.open(timing=Timing(heartbeats=HeartbeatTimeouts(suspect_s=3, lost_s=4))) as cluster:
        for number in range(12):
            await cluster.stored.agent(f"a{number:02}")
        await cluster.settle()
        before = cluster.coordinator._context.batches.transactions
        await cluster.pass_time(4)
        assert cluster.coordinator._context.batches.transactions == before + 1
        assert {await status(cluster, f"a{number:02}") for number in range(12)} == {AgentStatus.SUSPECT}


class Stall:
    """A handler that keeps the coordinator busy, so that it runs no other one meanwhile."""

    name = "stall"

    def __init__(self, cluster: OrchestratedCluster) -> None:
        self._cluster, self.seconds = cluster, 0.0

    async def handle(self, _cycle: CycleInput) -> bool:
        if self.seconds:
            await self._cluster.clock.advance(self.seconds)
            self.seconds = 0.0
        return False

    def clear(self) -> None:
        pass


async def test_the_lag_of_the_coordinator_is_no_silence_of_agents(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    await cluster.settle()
    stall = Stall(cluster)
    cluster.coordinator.handlers = (stall, *cluster.coordinator.handlers)
    for _ in range(4):
        stall.seconds = 59.0
        await cluster.pass_time(1)
        assert await status(cluster) is AgentStatus.ALIVE
    await cluster.pass_time(1)
    assert [round(one) for one in cluster.telemetry.observed("loop_stall_seconds")] == [60] * 4


async def test_a_manager_on_time_has_no_stalls(cluster: OrchestratedCluster) -> None:
    await cluster.pass_time(5)
    assert cluster.telemetry.observed("loop_stall_seconds") == []


async def test_an_agent_is_suspect_in_time_though_cycles_wait_long(cluster: OrchestratedCluster) -> None:
    silent, _speaking = await cluster.agent("a1"), await cluster.agent("a2")
    await cluster.settle()
    failures: list[TaskFailure] = []
    beside = PeriodicTask(
        cluster.coordinator.tasks()[-1], clock=cluster.clock, hints=cluster.hints, failed=failures.append
    )
    running = asyncio.create_task(beside.run())
    # A cycle that waits for the store: the event loop is free, and reads heartbeats.
    stall = Stall(cluster)
    cluster.coordinator.handlers = (stall, *cluster.coordinator.handlers)
    silent.speaking = False
    for _ in range(3):
        stall.seconds = 7.0
        await cluster.pass_time(1)
    beside.stop()
    await running
    assert (await status(cluster), await status(cluster, "a2")) == (AgentStatus.SUSPECT, AgentStatus.ALIVE)
    assert failures == []


async def test_a_heartbeat_that_came_during_a_cycle_counts_in_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.settle()
    agent.speaking = False
    await cluster.pass_time(14)
    agent.speaking = True
    stall = Stall(cluster)

    async def beat(_cycle: CycleInput) -> bool:
        await cluster.agents.beat()
        return False

    stall.handle = beat  # type: ignore[method-assign]  # a heartbeat arrives while the cycle runs
    cluster.coordinator.handlers = (stall, *cluster.coordinator.handlers)
    await cluster.clock.advance(2)
    await cluster.settle()
    assert await status(cluster) is AgentStatus.ALIVE


async def test_flapping_makes_a_suspect_and_never_a_loss(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    for _ in range(5):
        agent.speaking = False
        await cluster.pass_time(20)
        agent.speaking = True
        await cluster.pass_time(2)
    history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
    assert "declared_lost" not in [entry.trigger for entry in history]
    assert await cluster.status("s") == "running"


async def test_checkpoints_are_stored_at_most_every_ten_seconds(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    stored: set[int | None] = set()
    for step in range(30):
        agent.saves("s.0", step)
        await cluster.pass_time(1)
        stored.add((await cluster.session("s")).checkpoint_ms)
    assert 3 <= len(stored) <= 5
    assert await cluster.status("s") == "running"


async def test_a_device_with_a_fault_gets_no_kernels_until_it_is_healthy_again(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1", slots={"cpu": 8000, "mem": 8 << 30, "cuda.device": 2})
    await cluster.submit("held", slots={"cuda.device": 1})
    await cluster.settle()
    device = (await cluster.session("held")).kernels[0].devices["cuda.device"][0]
    agent.apply(DevicesChecked({device: "it is lost"}))
    await cluster.pass_time(3)

    record = await cluster.store.read(lambda unit: unit.fleet.get(AgentId("a1")))
    assert record.info.health.faults == ((device, "it is lost"),)
    assert cluster.telemetry.gauged("devices_faulty") == 1
    history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
    assert (history[-1].change.code, history[-1].change.detail) == ("device-fault", f"{device}: it is lost")
    # Its kernel goes on, and its session knows of it.
    assert await cluster.status("held") == "running"
    lines = await cluster.store.read(lambda unit: unit.sessions.history(SessionId("held")))
    noted = next(entry for _subject, entry in lines if entry.change.code == "device-fault")
    assert noted.change.detail == f"device {device} of agent a1 has a fault: it is lost; its kernel goes on"

    await cluster.stop("held")
    await cluster.submit("both", slots={"cuda.device": 2})
    await cluster.submit("one", slots={"cuda.device": 1})
    await cluster.pass_time(3)
    assert (await cluster.session("one")).kernels[0].devices["cuda.device"] != (device,)
    assert await cluster.status("both") == "pending"
    verdict = await cluster.store.read(lambda unit: unit.verdicts.get(SessionId("both")))
    assert verdict is not None
    assert f"device {device} of a1 is out of service: it is lost" in verdict.summary

    agent.apply(DevicesChecked({}))
    await cluster.stop("one")
    await cluster.pass_time(3)
    assert await cluster.status("both") == "running"
    history = await cluster.store.read(lambda unit: unit.fleet.history(AgentId("a1")))
    assert (history[-1].change.code, history[-1].change.detail) == ("device-recovered", f"{device} is healthy again")
